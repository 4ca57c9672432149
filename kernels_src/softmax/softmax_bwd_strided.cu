/*@kernel
name   = "softmax_bwd_strided_{T}_{WARPS}_{WIDE}"
about  = """Softmax gradient over a strided dim (channels of NCHW): lanes along neighbouring positions, \
            {WARPS} warps along the channels."""
T      = ["f64", "f32", "f16", "bf16"]
WARPS  = [4, 16]
WIDE   = [0, 1]                                    # 8 bytes a lane, or one element
when   = ["WIDE == 0 or T != f64"]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "T* dx", "int positions", "FastDiv inner", "int channels",
          "Array<int64_t, 3> outer", "Array<int64_t, 3> channel", "int is_log", "Acc_T alpha", "Acc_T beta"]
block  = ["32 * WARPS", 1, 1]
grid   = ["ceil_div(positions, 32)", 1, 1]
needs  = ["1 <= positions < 2**30", "channels >= 1",
          """WIDE == 0 or (outer[0] % (8 // sizeof(T)) == 0 and outer[1] % (8 // sizeof(T)) == 0 \
             and outer[2] % (8 // sizeof(T)) == 0)""",
          """WIDE == 0 or (channel[0] % (8 // sizeof(T)) == 0 and channel[1] % (8 // sizeof(T)) == 0 \
             and channel[2] % (8 // sizeof(T)) == 0)"""]
problems = ["""softmax_bwd y=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{128 // sizeof(T) if WIDE else 16},{400 // sizeof(T) if WIDE else 50},1 \
               dy=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{136 // sizeof(T) if WIDE else 17},{424 // sizeof(T) if WIDE else 53},1 \
               dx=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{144 // sizeof(T) if WIDE else 18},{448 // sizeof(T) if WIDE else 56},1""",
            """softmax_bwd y=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{128 // sizeof(T) if WIDE else 16},{400 // sizeof(T) if WIDE else 50},1 \
               dy=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{136 // sizeof(T) if WIDE else 17},{424 // sizeof(T) if WIDE else 53},1 \
               dx=3x{4 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{144 // sizeof(T) if WIDE else 18},{448 // sizeof(T) if WIDE else 56},1 algorithm=log""",
            "softmax_bwd n3c{9 * WARPS + 5}h5w{24 // sizeof(T) if WIDE else 3} {T}",
            "softmax_bwd n3c{9 * WARPS + 5}h5w{24 // sizeof(T) if WIDE else 3} {T} algorithm=log"]
@*/
// The plan of softmax_fwd_strided; outer and channel are the strides of y, dy, dx. Up to HELD * WARPS
// channels y and dy are read once; beyond that twice, backwards the second time.
#include "row.cuh"

constexpr int VEC = WIDE ? 8 / sizeof(T) : 1, HELD = 4, TILE = HELD * WARPS;

extern "C" __global__ __launch_bounds__(32 * WARPS, (sizeof(T) == 8 ? 16 : 32) / WARPS) void KERNEL(
        const T* y, const T* dy, T* dx, int positions, FastDiv inner, int channels, Array<i64, 3> outer,
        Array<i64, 3> channel, int is_log, Acc_T alpha, Acc_T beta) {
    using Chunk = Vec<T, VEC>;
    __shared__ Acc_T parts[WARPS][VEC][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, position = blockIdx.x * 32 + lane;
    unsigned at;
    const unsigned image = inner.divmod(position, at);
    y += image * outer[0] + i64(at) * VEC, dy += image * outer[1] + i64(at) * VEC,
    dx += image * outer[2] + i64(at) * VEC;
    // Such a lane loads and stores nothing, but meets the others at the barriers.
    if (position >= positions) channels = 0;

    Chunk held_y[HELD], held_dy[HELD];
    Chunk none;
    UNROLL for (int j = 0; j < VEC; ++j) none[j] = from_acc<T>(Acc_T(0));
    const auto load = [&](int base) {
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int c = base + warp + k * WARPS;
            held_y[k] = held_dy[k] = none;
            if (c < channels)
                held_y[k] = Chunk::load(y + c * channel[0]), held_dy[k] = Chunk::load(dy + c * channel[1]);
        }
    };
    Acc_T sum[VEC] = {};
    int base = 0;
    NO_UNROLL for (;; base += TILE) {
        load(base);
        UNROLL for (int k = 0; k < HELD; ++k)
            UNROLL for (int j = 0; j < VEC; ++j)
                sum[j] += GradientOf<T>::share(to_acc(held_y[k][j]), to_acc(held_dy[k][j]), is_log);
        if (base + TILE >= channels) break;
    }

    UNROLL for (int j = 0; j < VEC; ++j) parts[warp][j][lane] = sum[j];
    __syncthreads();
    static_assert(VEC <= WARPS);
    if (const int p = threadIdx.x; p < 32 * VEC) {
        Acc_T all = parts[0][p / 32][p % 32];
        UNROLL for (int w = 1; w < WARPS; ++w) all += parts[w][p / 32][p % 32];
        parts[0][p / 32][p % 32] = all;
    }
    __syncthreads();
    UNROLL for (int j = 0; j < VEC; ++j) sum[j] = parts[0][j][lane];

    NO_UNROLL for (const int last = base; base >= 0; base -= TILE) {
        if (base != last) load(base);
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int c = base + warp + k * WARPS;
            if (c >= channels) continue;
            const Chunk a = held_y[k], b = held_dy[k];
            Acc_T f[VEC];
            UNROLL for (int j = 0; j < VEC; ++j)
                f[j] = GradientOf<T>{sum[j], alpha, bool(is_log)}(to_acc(a[j]), to_acc(b[j]));
            put_chunk(dx + c * channel[2], f, beta);
        }
    }
}
