/*@kernel
name   = "softmax_fwd_columns_{T}_{MOST}"
about  = """Softmax over a strided dim (channels of NCHW) of up to {MOST} channels, all held in registers: \
            one read, one write."""
T      = ["f32", "f16", "bf16"]
MOST   = [16, 32, 64, 128, 256, 512, 1024]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "int positions", "FastDiv inner", "int channels", "int64_t x_outer",
          "int64_t y_outer", "int64_t x_channel", "int64_t y_channel", "int is_log", "float alpha",
          "float beta"]
block  = ["128 if MOST <= 16 else min(MOST * 2, 512)", 1, 1]
grid   = ["ceil_div(positions, 128 if MOST <= 16 else 32 if MOST <= 256 else 16)", 1, 1]
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
// more than 512 channels a thread has too many to keep them: it takes the exponential again.
#include "columns.cuh"

constexpr int VEC = 4 / sizeof(T), LANES = MOST <= 256 ? 32 : 16, HELD = MOST <= 512 ? 16 : 32;
constexpr int GROUPS = MOST / HELD, TILES = GROUPS == 1 ? 4 : 1;
using Block = Columns<LANES, GROUPS, TILES>;
constexpr int RESIDENT = 1024 / Block::threads, PARTS = GROUPS > 1 ? Block::warps : 1;     // blocks of an SM
constexpr bool KEEPS = HELD <= 16;

extern "C" __global__ __launch_bounds__(Block::threads, RESIDENT) void KERNEL(
        const T* x, T* y, int positions, FastDiv inner, int channels, i64 x_outer, i64 y_outer, i64 x_channel,
        i64 y_channel, int is_log, float alpha, float beta) {
    using Chunk = Vec<T, VEC>;
    __shared__ float tops[PARTS][LANES][VEC], sums[PARTS][LANES][VEC];
    const Block own;
    unsigned at;
    const unsigned image = inner.divmod(own.position(), at);
    // A lane beyond the last position loads and stores nothing, but meets the others at the barriers.
    const int count = own.position() < positions && own.group < channels
                          ? (channels - own.group + GROUPS - 1) / GROUPS : 0;
    x += image * x_outer + i64(at) * VEC + own.group * x_channel;
    y += image * y_outer + i64(at) * VEC + own.group * y_channel;

    Chunk held[HELD];
    float top[VEC], sum[VEC] = {}, base[VEC], f[KEEPS ? HELD : 1][VEC];
    UNROLL for (int k = 0; k < HELD; ++k) {
        unsigned word = 0;
        if (k < count) word = *reinterpret_cast<const unsigned*>(x + k * (GROUPS * x_channel));
        reinterpret_cast<unsigned&>(held[k]) = word;
    }
    // All loads are under way before the first use: a compiler that sees one use puts each load there.
    UNROLL for (int k = 0; k < HELD; ++k) asm volatile("" : "+r"(reinterpret_cast<unsigned&>(held[k])));
    UNROLL for (int j = 0; j < VEC; ++j) top[j] = -INFINITY;
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        UNROLL for (int j = 0; j < VEC; ++j) {
            const float v = to_acc(held[k][j]);
            top[j] = max_nan(top[j], v);
            if constexpr (KEEPS) f[k][j] = v;
        }
    }
    own.merge(top, tops, Max{});
    UNROLL for (int j = 0; j < VEC; ++j) base[j] = base_of(top[j]);
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        UNROLL for (int j = 0; j < VEC; ++j) {
            const float v = (KEEPS ? f[k % (KEEPS ? HELD : 1)][j] : to_acc(held[k][j])) - base[j];
            const float r = raised_exp<T>(v);
            sum[j] = add_rn(sum[j], r);
            if constexpr (KEEPS) f[k][j] = is_log ? v : r;
        }
    }
    own.merge(sum, sums, Sum{});
    SoftmaxOf<T> of[VEC];
    UNROLL for (int j = 0; j < VEC; ++j) of[j] = SoftmaxOf<T>({base[j], sum[j]}, alpha, is_log);
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        float r[VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            if constexpr (KEEPS) r[j] = is_log ? fma(f[k][j], alpha, of[j].factor) : f[k][j] * of[j].factor;
            else r[j] = of[j](to_acc(held[k][j]));
        }
        put_chunk(y + k * (GROUPS * y_channel), r, beta);
    }
}
