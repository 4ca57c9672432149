/*@kernel
name   = "softmax_fwd_columns_{T}_{MOST}"
about  = """Softmax over a strided dim (channels of NCHW) of up to {MOST} channels, all held in registers: \
            one read, one write."""
T      = ["f32", "f16", "bf16"]
MOST   = [16, 32, 64, 128, 256, 512, 1024, 4096]
targets = ["sm_75", "sm_80"]
when   = ["MOST <= 1024 or sm >= 80"]
params = ["const T* x", "T* y", "int positions", "FastDiv inner", "int channels", "int64_t x_outer",
          "int64_t y_outer", "int64_t x_channel", "int64_t y_channel", "int is_log", "float alpha",
          "float beta"]
block  = ["""128 if MOST <= 8 * sizeof(T) else MOST * 4 // sizeof(T) if MOST <= 256 \
             else 1024 // sizeof(T) if MOST == 512 else min(MOST // 2, 1024)""", 1, 1]
grid   = ["""ceil_div(positions, 128 if MOST <= 8 * sizeof(T) else 32 if MOST <= 256 \
             else 16 if MOST <= 1024 else 8)""", 1, 1]
needs  = ["1 <= positions < 2**30", "1 <= channels", "channels <= MOST",
          "x_outer % (4 // sizeof(T)) == 0 and y_outer % (4 // sizeof(T)) == 0",
          "x_channel % (4 // sizeof(T)) == 0 and y_channel % (4 // sizeof(T)) == 0"]
problems = ["""softmax_fwd x=3x{MOST - 1}x{180 // sizeof(T)}:{T}@{192 // sizeof(T)},{600 // sizeof(T)},1 \
               y=3x{MOST - 1}x{180 // sizeof(T)}:{T}@{204 // sizeof(T)},{636 // sizeof(T)},1""",
            "softmax_fwd n3c{MOST // 2 + 1}h5w{24 // sizeof(T)} {T} algorithm=log",
            "softmax_fwd n1c{MOST}h1w{24 // sizeof(T)} {T}",
            "softmax_fwd n1c{MOST}h1w{24 // sizeof(T)} {T} algorithm=log"]
@*/
// A position is VEC neighbours in memory; `inner` positions follow each other, then x_outer begins the
// next image. Maxima first, then one exponential an element, kept for the result, as in softmax_fwd_warp. Of
// more than 512 channels of 16 bits a thread has too many to keep them: it takes the exponential again.
#include "columns_fwd.cuh"

constexpr int VEC = 4 / sizeof(T), LANES = MOST <= 256 ? 32 : MOST <= 1024 ? 16 : 8;
constexpr int HELD = MOST > 512 || (VEC == 1 && MOST > 16) ? 32 : 16;
constexpr int GROUPS = MOST / HELD, TILES = GROUPS == 1 ? 4 : 1;
using Block = Columns<LANES, GROUPS, TILES>;
constexpr int RESIDENT = 1024 / Block::threads, PARTS = GROUPS > 1 ? Block::warps : 1;     // blocks of an SM
constexpr bool KEEPS = HELD * VEC <= 32;

extern "C" __global__ __launch_bounds__(Block::threads, RESIDENT) void KERNEL(
        const T* x, T* y, int positions, FastDiv inner, int channels, i64 x_outer, i64 y_outer, i64 x_channel,
        i64 y_channel, int is_log, float alpha, float beta) {
    __shared__ float tops[PARTS][LANES][VEC], sums[PARTS][LANES][VEC];
    const Block own;
    unsigned at;
    const unsigned image = inner.divmod(own.position(), at);
    // A lane beyond the last position loads and stores nothing, but meets the others at the barriers.
    const int count = own.position() < positions && own.group < channels
                          ? (channels - own.group + GROUPS - 1) / GROUPS : 0;
    const int most = (channels + GROUPS - 1) / GROUPS;
    x += image * x_outer + i64(at) * VEC + own.group * x_channel;
    y += image * y_outer + i64(at) * VEC + own.group * y_channel;

    unsigned held[HELD];
    float top[VEC], sum[VEC] = {}, f[KEEPS ? HELD : 1][VEC];
    load_words(held, x, GROUPS * x_channel, count, most);
    top_of<T>(top, held, most);
    own.merge(top, tops, Max{});

    const auto finish = [&](auto is_log) {
        using Exponent = ExponentOf<T, is_log.value>;
        Exponent e[VEC];
        UNROLL for (int j = 0; j < VEC; ++j) e[j] = Exponent(base_of(top[j]));
        UNROLL for (int k = 0; k < HELD; ++k) {
            if (k % FOUR == 0 && k >= most) break;
            float v[VEC];
            open_word<T>(held[k], v);
            UNROLL for (int j = 0; j < VEC; ++j) {
                const float shifted = e[j].shifted(v[j]), r = e[j].raised(shifted);
                sum[j] = add_rn(sum[j], r);
                if constexpr (KEEPS) f[k][j] = is_log.value ? shifted : r;
            }
        }
        own.merge(sum, sums, Sum{});
        UNROLL for (int j = 0; j < VEC; ++j) {
            if constexpr (Exponent::is_fused) sum[j] = alpha * rcp_fast(sum[j]);
            else sum[j] = SoftmaxOf<T>({0.f, sum[j]}, alpha, is_log.value).factor;
        }
        put_words<T, HELD>(y, GROUPS * y_channel, count, beta, [&](int k, float (&r)[VEC]) {
            if constexpr (!KEEPS) open_word<T>(hidden(held[k]), r);
            UNROLL for (int j = 0; j < VEC; ++j) {
                if constexpr (KEEPS) r[j] = f[k][j];
                else r[j] = e[j].shifted(r[j]);
                if constexpr (is_log.value) r[j] = fma(r[j], alpha, sum[j]);
                else r[j] = (KEEPS ? r[j] : e[j].raised(r[j])) * sum[j];
            }
        });
    };
    if (is_log) finish(Flag<true>{});
    else finish(Flag<false>{});
}
