/*@kernel
name   = "norm_bwd_rows_{UNITS}_{LANES}"
about  = """Gradients of layer or RMS norm of any types, first of two launches: dx in one read of x and dy, \
            rows in registers; a block's share of dscale and dbias goes to the workspace."""
UNITS  = [16, 32, 64, 128, 256, 512, 1024]
LANES  = [1, 8]
params = ["float* part", "int rows", "int cols", "int64_t x_row", "int64_t dy_row", "int64_t dx_row",
          "int is_rms", "int has_statistics", "Number<float> epsilon", "Fuse fuse"]
extra  = ["blocks"]
block  = ["128 if UNITS <= 128 else UNITS if UNITS <= 512 else 512", 1, 1]
grid   = ["blocks", 1, 1]
needs  = ["1 <= rows < 2**30", "1 <= cols <= 8 * UNITS", "cols % LANES == 0", "1 <= blocks < 2**16"]
marks  = ["load_x", "load_dy", "load_scale", "load_mean", "load_rstd", "store"]
problems = ["norm_bwd 9x{UNITS * 8 - 8} f16", "norm_bwd 3x{UNITS * 8 - 8 - (LANES == 1)} mode=rms bf16",
            """norm_bwd x=3x{UNITS * 8 - 8 - (LANES == 1)}:f16 dy=3x{UNITS * 8 - 8 - (LANES == 1)}:f16 \
               scale=1x{UNITS * 8 - 8 - (LANES == 1)}:f32 dx=3x{UNITS * 8 - 8 - (LANES == 1)}:f16 \
               dscale=1x{UNITS * 8 - 8 - (LANES == 1)}:f32 dbias=1x{UNITS * 8 - 8 - (LANES == 1)}:f32"""]
@*/
// Blocks stride over the rows; a thread keeps its columns, so that their sums stay in registers. The teams of
// a block add theirs in shared memory, one behind the other: part[block][dscale, dbias][cols].
#include "lib/number.cuh"
#include "row.cuh"

constexpr int THREADS = UNITS <= 16 ? 16 : UNITS <= 128 ? 32 : UNITS <= 512 ? UNITS : 512;
constexpr int BLOCK = THREADS < 128 ? 128 : THREADS, TEAMS = BLOCK / THREADS;
constexpr int HELD = 8 * UNITS / THREADS / LANES;                    // accesses of a thread

struct Pair { float a, b; };
struct Both {
    DEVICE Pair operator()(const Pair& p, const Pair& q) const { return {p.a + q.a, p.b + q.b}; }
};
DEVICE Pair row_pair(Pair p) {
    if constexpr (THREADS <= 32) return warp_reduce<THREADS>(p, Both{});
    else {
        __syncthreads();
        return block_reduce<THREADS>(p, Both{});
    }
}

struct Statistics { float mean, rstd; };
DEVICE Statistics statistics(const float (&x)[HELD][LANES], int lane, int cols, float share, int is_rms,
                             float epsilon) {
    float sum = 0, mean = 0, squares = 0;
    if (!is_rms) {
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) sum += x[k][i];
        mean = row_sum<THREADS>(sum, true) * share;
    }
    UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
        const float d = (lane + k * THREADS) * LANES < cols ? x[k][i] - mean : 0;
        squares = fma(d, d, squares);
    }
    return {mean, 1.f / sqrtf(row_sum<THREADS>(squares, true) * share + epsilon)};
}

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    float* part, int rows, int cols, i64 x_row, i64 dy_row, i64 dx_row, int is_rms, int has_statistics,
    Number<float> epsilon, Fuse fuse) {
    const int lane = threadIdx.x % THREADS, team = blockIdx.x * TEAMS + threadIdx.x / THREADS;
    const float share = 1.f / float(cols);
    float scale[HELD][LANES], dscale[HELD][LANES], dbias[HELD][LANES];
    UNROLL for (int k = 0; k < HELD; ++k) {
        const int col = (lane + k * THREADS) * LANES;
        UNROLL for (int i = 0; i < LANES; ++i) scale[k][i] = 1, dscale[k][i] = dbias[k][i] = 0;
        if (col < cols) fuse_load_scale(scale[k], col, 0, col);
    }
    NO_UNROLL for (int first = 0; first < rows; first += gridDim.x * TEAMS) {
        const bool inside = first + team < rows;                     // warps stay whole
        const unsigned row = inside ? first + team : rows - 1;
        float x[HELD][LANES], dy[HELD][LANES];
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int col = (lane + k * THREADS) * LANES;
            UNROLL for (int i = 0; i < LANES; ++i) x[k][i] = dy[k][i] = 0;
            if (!inside || col >= cols) continue;
            fuse_load_x(x[k], row * x_row + col, row, col);
            fuse_load_dy(dy[k], row * dy_row + col, row, col);
        }
        Statistics of = {0, 0};
        if (has_statistics) {
            fuse_load_mean(of.mean, row);
            fuse_load_rstd(of.rstd, row);
        } else of = statistics(x, lane, cols, share, is_rms, epsilon.load());
        Pair sums = {0, 0};
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
            x[k][i] = (x[k][i] - of.mean) * of.rstd;
            const float grad = dy[k][i] * scale[k][i];
            sums = {sums.a + grad, fma(grad, x[k][i], sums.b)};
        }
        // Beyond the row dy is 0, so that x there counts nothing.
        sums = row_pair(sums);
        const float middle = is_rms ? 0 : sums.a * share, slope = sums.b * share;
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int col = (lane + k * THREADS) * LANES;
            if (!inside || col >= cols) break;
            float dx[LANES];
            UNROLL for (int i = 0; i < LANES; ++i) {
                dx[i] = of.rstd * (fma(dy[k][i], scale[k][i], -middle) - x[k][i] * slope);
                dscale[k][i] = fma(dy[k][i], x[k][i], dscale[k][i]);
                dbias[k][i] += dy[k][i];
            }
            fuse_store(dx, row * dx_row + col, row, col);
        }
    }
    if (!part) return;
    part += i64(blockIdx.x) * 2 * cols;
    __shared__ float all[TEAMS > 1 ? 2 * 8 * UNITS : 1];
    UNROLL for (int t = 0; t < TEAMS; ++t) {
        if (TEAMS > 1) __syncthreads();
        if (threadIdx.x / THREADS != t) continue;
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
            const int col = (lane + k * THREADS) * LANES + i;
            if (col >= cols) continue;
            float sums[2] = {dscale[k][i], dbias[k][i]};
            if (t > 0) sums[0] += all[col], sums[1] += all[8 * UNITS + col];
            if (t < TEAMS - 1) all[col] = sums[0], all[8 * UNITS + col] = sums[1];
            else part[col] = sums[0], part[cols + col] = sums[1];
        }
    }
}
