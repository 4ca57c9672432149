/*@kernel
name   = "norm_fwd_rows_{UNITS}_{LANES}_{CLUSTER}"
about  = """Layer, RMS or instance norm of any types, a row in the registers of up to 1024 threads of each \
            of {CLUSTER} blocks: one read, variance by a second pass over the registers. Spliced code loads \
            and stores, {LANES} neighbours at once."""
UNITS  = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
LANES  = [1, 8]
CLUSTER = [1, 2, 4, 8]
targets = ["sm_75", "sm_80", "sm_90"]         # sm_80 rounds to bf16 in one instruction
when   = ["(sm == 90) == (CLUSTER > 1)", "CLUSTER == 1 or UNITS >= 2048",
          "UNITS == 2048 or CLUSTER in (1, 8)"]
params = ["int rows", "int cols", "int width", "int64_t x_row", "int64_t y_row", "int is_rms",
          "Number<float> epsilon", "Fuse fuse"]
block  = ["128 if UNITS <= 512 else UNITS // 4", 1, 1]
grid   = ["ceil_div(rows, 8 if UNITS == 16 else 4 if UNITS <= 128 else 1) * CLUSTER", 1, 1]
needs  = ["1 <= rows", "rows * CLUSTER < 2**30", "1 <= width <= 8 * UNITS", "1 <= cols <= width * CLUSTER",
          "cols % LANES == 0", "width % LANES == 0"]
marks  = ["load_x", "load_scale", "load_bias", "store", "mean", "rstd"]
problems = ["norm_fwd {9 if CLUSTER == 1 else 3}x{(UNITS * 8 - 8) * CLUSTER} f16",
            "norm_fwd 3x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)} mode=rms bf16"]
@*/
// Threads stand side by side along the row, so that every access of a warp is one run of memory.
#include "lib/number.cuh"
#include "row.cuh"

constexpr int THREADS = threads_of(UNITS), BLOCK = THREADS < 128 ? 128 : THREADS;
constexpr int HELD = 8 * UNITS / THREADS / LANES;                    // accesses of a thread

#if CLUSTER > 1
#define CLUSTERED __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTERED
#endif

extern "C" __global__ CLUSTERED __launch_bounds__(BLOCK) void KERNEL(
    int rows, int cols, int width, i64 x_row, i64 y_row, int is_rms, Number<float> epsilon, Fuse fuse) {
    const int rank = blockIdx.x % CLUSTER, last = min(cols, (rank + 1) * width);
    const int begin = rank * width + threadIdx.x % THREADS * LANES;      // this thread's first column
    const int mine = blockIdx.x / CLUSTER * (BLOCK / THREADS) + threadIdx.x / THREADS;
    int turn = 0;
    const bool inside = mine < rows;
    const unsigned row = inside ? mine : rows - 1;                   // warps stay whole
    const float share = 1.f / float(cols);

    float x[HELD][LANES];
    // Nobody reads what another writes: y may be x.
    UNROLL for (int k = 0; k < HELD; ++k) {
        const int col = begin + k * THREADS * LANES;
        UNROLL for (int i = 0; i < LANES; ++i) x[k][i] = 0;
        if (inside && col < last) fuse_load_x(x[k], row * x_row + col, row, col);
    }
    float sum = 0, mean = 0;
    if (!is_rms) {
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) sum += x[k][i];
        mean = over_cluster(row_sum<THREADS>(sum, false), turn, Sum{}) * share;
    }
    float squares = 0;
    UNROLL for (int k = 0; k < HELD; ++k) {
        const bool valid = begin + k * THREADS * LANES < last;
        UNROLL for (int i = 0; i < LANES; ++i) {
            const float d = valid ? x[k][i] - mean : 0;
            squares = fma(d, d, squares);
        }
    }
    const float var = over_cluster(row_sum<THREADS>(squares, true), turn, Sum{}) * share;
    float rstd = 1.f / sqrtf(var + epsilon.load());
    rows_end();
    if (!inside) return;
    UNROLL for (int k = 0; k < HELD; ++k) {
        const int col = begin + k * THREADS * LANES;
        if (col >= last) break;
        float scale[LANES], bias[LANES], y[LANES];
        UNROLL for (int i = 0; i < LANES; ++i) scale[i] = 1, bias[i] = 0;
        fuse_load_scale(scale, row * x_row + col, row, col);
        fuse_load_bias(bias, row * x_row + col, row, col);
        UNROLL for (int i = 0; i < LANES; ++i) y[i] = fma((x[k][i] - mean) * rstd, scale[i], bias[i]);
        fuse_store(y, row * y_row + col, row, col);
    }
    if (begin) return;
    fuse_mean(mean, row);
    fuse_rstd(rstd, row);
}
