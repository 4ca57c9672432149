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
block  = ["128 if MOST <= 128 else min(MOST, 512)", 1, 1]
grid   = ["ceil_div(positions, 128 if MOST <= 64 else 32 if MOST <= 512 else 16)", 1, 1]
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
// next image. Maxima first, then sums, so that an element costs two exponentials and no rescaling.
#include "columns.cuh"

constexpr int VEC = 4 / sizeof(T), LANES = MOST <= 512 ? 32 : 16, HELD = MOST <= 64 ? MOST : 32;
constexpr int GROUPS = MOST / HELD, TILES = MOST <= 64 ? 4 : 1;
using Block = Columns<LANES, GROUPS, TILES>;

constexpr int RESIDENT = MOST <= 64 ? 4 : 1024 / Block::threads, PARTS = GROUPS > 1 ? Block::warps : 1;

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
    float top[VEC], sum[VEC] = {};
    UNROLL for (int k = 0; k < HELD; ++k)
        if (k < count) held[k] = Chunk::load(x + k * (GROUPS * x_channel));
    UNROLL for (int j = 0; j < VEC; ++j) top[j] = -INFINITY;
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        UNROLL for (int j = 0; j < VEC; ++j) top[j] = max_nan(top[j], to_acc(held[k][j]));
    }
    own.merge(top, tops, Max{});
    float base[VEC];
    UNROLL for (int j = 0; j < VEC; ++j) base[j] = base_of(top[j]);
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        UNROLL for (int j = 0; j < VEC; ++j)
            sum[j] = add_rn(sum[j], raised_exp<T>(to_acc(held[k][j]) - base[j]));
    }
    own.merge(sum, sums, Sum{});
    SoftmaxOf<T> of[VEC];
    UNROLL for (int j = 0; j < VEC; ++j) of[j] = SoftmaxOf<T>({top[j], sum[j]}, alpha, is_log);
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        float f[VEC];
        UNROLL for (int j = 0; j < VEC; ++j) f[j] = of[j](to_acc(held[k][j]));
        put_chunk(y + k * (GROUPS * y_channel), f, beta);
    }
}
