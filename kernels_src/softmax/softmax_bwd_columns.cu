/*@kernel
name   = "softmax_bwd_columns_{T}_{MOST}"
about  = """Softmax gradient over a strided dim (channels of NCHW) of up to {MOST} channels, all held in \
            registers: one read, one write."""
T      = ["f32", "f16", "bf16"]
MOST   = [16, 32, 64, 128, 256, 512, 1024]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "T* dx", "int positions", "FastDiv inner", "int channels",
          "Array<int64_t, 3> outer", "Array<int64_t, 3> channel", "int is_log", "float alpha", "float beta"]
block  = ["128 if MOST <= 64 else min(MOST * 2, 512)", 1, 1]
grid   = ["ceil_div(positions, 128 if MOST <= 32 else 32 if MOST <= 256 else 16)", 1, 1]
needs  = ["1 <= positions < 2**30", "1 <= channels", "channels <= MOST",
          """outer[0] % (4 // sizeof(T)) == 0 and outer[1] % (4 // sizeof(T)) == 0 \
             and outer[2] % (4 // sizeof(T)) == 0""",
          """channel[0] % (4 // sizeof(T)) == 0 and channel[1] % (4 // sizeof(T)) == 0 \
             and channel[2] % (4 // sizeof(T)) == 0"""]
problems = ["""softmax_bwd y=3x{MOST - 1}x{180 // sizeof(T)}:{T}@{192 // sizeof(T)},{600 // sizeof(T)},1 \
               dy=3x{MOST - 1}x{180 // sizeof(T)}:{T}@{204 // sizeof(T)},{636 // sizeof(T)},1 \
               dx=3x{MOST - 1}x{180 // sizeof(T)}:{T}@{216 // sizeof(T)},{672 // sizeof(T)},1""",
            "softmax_bwd n3c{MOST // 2 + 1}h5w{24 // sizeof(T)} {T} algorithm=log",
            "softmax_bwd n1c{MOST}h1w{24 // sizeof(T)} {T}",
            "softmax_bwd n1c{MOST}h1w{24 // sizeof(T)} {T} algorithm=log"]
@*/
// Positions as in softmax_fwd_columns; outer and channel are the strides of y, dy, dx.
#include "columns.cuh"

constexpr int VEC = 4 / sizeof(T), LANES = MOST <= 256 ? 32 : 16;
constexpr int HELD = MOST <= 32 ? MOST : MOST <= 512 ? 16 : 32;
constexpr int GROUPS = MOST / HELD, TILES = MOST <= 32 ? 4 : 1;
using Block = Columns<LANES, GROUPS, TILES>;

constexpr int RESIDENT = MOST == 32 ? 4 : MOST > 512 ? 1 : 1024 / Block::threads;      // blocks of an SM

extern "C" __global__ __launch_bounds__(Block::threads, RESIDENT) void KERNEL(
        const T* y, const T* dy, T* dx, int positions, FastDiv inner, int channels, Array<i64, 3> outer,
        Array<i64, 3> channel, int is_log, float alpha, float beta) {
    using Chunk = Vec<T, VEC>;
    __shared__ float sums[GROUPS > 1 ? Block::warps : 1][LANES][VEC];
    const Block own;
    unsigned at;
    const unsigned image = inner.divmod(own.position(), at);
    // A lane beyond the last position loads and stores nothing, but meets the others at the barrier.
    const int count = own.position() < positions && own.group < channels
                          ? (channels - own.group + GROUPS - 1) / GROUPS : 0;
    y += image * outer[0] + i64(at) * VEC + own.group * channel[0];
    dy += image * outer[1] + i64(at) * VEC + own.group * channel[1];
    dx += image * outer[2] + i64(at) * VEC + own.group * channel[2];

    Chunk a[HELD], b[HELD];
    float sum[VEC] = {};
    UNROLL for (int k = 0; k < HELD; ++k)
        if (k < count) {
            a[k] = Chunk::load(y + k * (GROUPS * channel[0]));
            b[k] = Chunk::load(dy + k * (GROUPS * channel[1]));
        }
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        UNROLL for (int j = 0; j < VEC; ++j)
            sum[j] += GradientOf<T>::share(to_acc(a[k][j]), to_acc(b[k][j]), is_log);
    }
    own.merge(sum, sums, Sum{});
    UNROLL for (int k = 0; k < HELD; ++k) {
        if (k >= count) break;
        float f[VEC];
        UNROLL for (int j = 0; j < VEC; ++j)
            f[j] = GradientOf<T>{sum[j], alpha, bool(is_log)}(to_acc(a[k][j]), to_acc(b[k][j]));
        put_chunk(dx + k * (GROUPS * channel[2]), f, beta);
    }
}
