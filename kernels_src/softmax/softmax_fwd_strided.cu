/*@kernel
name   = "softmax_fwd_strided_{T}_{WARPS}_{WIDE}"
about  = """Softmax over a strided dim (channels of NCHW): lanes along neighbouring positions, \
            {WARPS} warps along the channels."""
T      = ["f64", "f32", "f16", "bf16"]
WARPS  = [4, 16]
WIDE   = [0, 1]                                    # 8 bytes a lane, or one element
when   = ["WIDE == 0 or T != f64"]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "int positions", "FastDiv inner", "int channels", "int64_t x_outer",
          "int64_t y_outer", "int64_t x_channel", "int64_t y_channel", "int is_log", "Acc_T alpha",
          "Acc_T beta"]
block  = ["32 * WARPS", 1, 1]
grid   = ["ceil_div(positions, 32)", 1, 1]
needs  = ["1 <= positions < 2**30", "channels >= 1",
          "WIDE == 0 or (x_outer % (8 // sizeof(T)) == 0 and y_outer % (8 // sizeof(T)) == 0)",
          "WIDE == 0 or (x_channel % (8 // sizeof(T)) == 0 and y_channel % (8 // sizeof(T)) == 0)"]
problems = ["""softmax_fwd x=3x{8 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{128 // sizeof(T) if WIDE else 16},{400 // sizeof(T) if WIDE else 50},1 \
               y=3x{8 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{136 // sizeof(T) if WIDE else 17},{424 // sizeof(T) if WIDE else 53},1""",
            """softmax_fwd x=3x{8 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{128 // sizeof(T) if WIDE else 16},{400 // sizeof(T) if WIDE else 50},1 \
               y=3x{8 * WARPS - 1}x{120 // sizeof(T) if WIDE else 15}:{T}\
               @{136 // sizeof(T) if WIDE else 17},{424 // sizeof(T) if WIDE else 53},1 algorithm=log""",
            "softmax_fwd n3c{17 * WARPS + 5}h5w{24 // sizeof(T) if WIDE else 3} {T}",
            "softmax_fwd n3c{17 * WARPS + 5}h5w{24 // sizeof(T) if WIDE else 3} {T} algorithm=log"]
@*/
// A position is VEC neighbours in memory; `inner` positions follow each other, then x_outer begins the
// next image. Warp w holds channels base + w + WARPS * k of 32 positions. Up to HELD * WARPS channels x is
// read once; beyond that the channels are walked twice, backwards the second time, so that what was read
// last is found first.
#include "row.cuh"

constexpr int VEC = WIDE ? 8 / sizeof(T) : 1, HELD = 8, TILE = HELD * WARPS;

extern "C" __global__ __launch_bounds__(32 * WARPS, (sizeof(T) == 8 ? 16 : 32) / WARPS) void KERNEL(
        const T* x, T* y, int positions, FastDiv inner, int channels, i64 x_outer, i64 y_outer, i64 x_channel,
        i64 y_channel, int is_log, Acc_T alpha, Acc_T beta) {
    using Chunk = Vec<T, VEC>;
    __shared__ MaxSum<Acc_T> parts[WARPS][VEC][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, position = blockIdx.x * 32 + lane;
    unsigned at;
    const unsigned image = inner.divmod(position, at);
    x += image * x_outer + i64(at) * VEC, y += image * y_outer + i64(at) * VEC;
    // Such a lane loads and stores nothing, but meets the others at the barriers.
    if (position >= positions) channels = 0;

    Chunk held[HELD];
    Chunk none;
    UNROLL for (int j = 0; j < VEC; ++j) none[j] = from_acc<T>(Acc_T(-INFINITY));
    const auto load = [&](int base) {
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int c = base + warp + k * WARPS;
            held[k] = none;
            if (c < channels) held[k] = Chunk::load(x + c * x_channel);
        }
    };
    MaxSum<Acc_T> row[VEC];
    UNROLL for (int j = 0; j < VEC; ++j) row[j] = nothing<Acc_T>();
    int base = 0;
    NO_UNROLL for (;; base += TILE) {
        load(base);
        UNROLL for (int j = 0; j < VEC; ++j) {
            Acc_T f[HELD];
            UNROLL for (int k = 0; k < HELD; ++k) f[k] = to_acc(held[k][j]);
            fold<T>(row[j], f);
        }
        if (base + TILE >= channels) break;
    }

    UNROLL for (int j = 0; j < VEC; ++j) parts[warp][j][lane] = row[j];
    __syncthreads();
    static_assert(VEC <= WARPS);
    if (const int p = threadIdx.x; p < 32 * VEC) {
        MaxSum<Acc_T> all = parts[0][p / 32][p % 32];
        NO_UNROLL for (int w = 1; w < WARPS; ++w) all = Merge<T>{}(all, parts[w][p / 32][p % 32]);
        parts[0][p / 32][p % 32] = all;
    }
    __syncthreads();
    UNROLL for (int j = 0; j < VEC; ++j) {
        const SoftmaxOf<T> of(parts[0][j][lane], alpha, is_log);
        row[j] = {of.max, of.factor};
    }

    NO_UNROLL for (const int last = base; base >= 0; base -= TILE) {
        if (base != last) load(base);
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int c = base + warp + k * WARPS;
            if (c >= channels) continue;
            SoftmaxOf<T> of;
            of.alpha = alpha, of.is_log = is_log;
            Acc_T f[VEC];
            const Chunk chunk = held[k];
            UNROLL for (int j = 0; j < VEC; ++j) {
                of.max = row[j].max, of.factor = row[j].sum;
                f[j] = of(to_acc(chunk[j]));
            }
            put_chunk(y + c * y_channel, f, beta);
        }
    }
}
