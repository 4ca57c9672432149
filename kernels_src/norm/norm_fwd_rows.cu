/*@kernel
name   = "norm_fwd_rows_{UNITS}_{LANES}"
about  = """Layer, RMS or instance norm of any types, a row in the registers of up to 1024 threads: \
            one read, variance by a second pass over the registers. Spliced code loads and stores, \
            {LANES} neighbours at once."""
UNITS  = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
LANES  = [1, 8]
params = ["int rows", "int cols", "int64_t x_row", "int64_t y_row", "int is_rms", "Number<float> epsilon",
          "Fuse fuse"]
block  = ["128 if UNITS <= 512 else UNITS // 4", 1, 1]
grid   = ["ceil_div(rows, 8 if UNITS == 16 else 4 if UNITS <= 128 else 1)", 1, 1]
needs  = ["1 <= rows < 2**30", "1 <= cols <= 8 * UNITS", "cols % LANES == 0"]
marks  = ["load_x", "load_scale", "load_bias", "store", "mean", "rstd"]
problems = ["norm_fwd 9x{UNITS * 8 - 8} f16", "norm_fwd 3x{UNITS * 8 - 8 - (LANES == 1)} mode=rms bf16"]
@*/
// Threads stand side by side along the row, so that every access of a warp is one run of memory.
#include "lib/number.cuh"
#include "row.cuh"

constexpr int THREADS = threads_of(UNITS), BLOCK = THREADS < 128 ? 128 : THREADS;
constexpr int HELD = 8 * UNITS / THREADS / LANES;                    // accesses of a thread

extern "C" __global__ __launch_bounds__(BLOCK) void KERNEL(
    int rows, int cols, i64 x_row, i64 y_row, int is_rms, Number<float> epsilon, Fuse fuse) {
    const int lane = threadIdx.x % THREADS, mine = blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    const bool inside = mine < rows;
    const unsigned row = inside ? mine : rows - 1;                   // warps stay whole
    const float share = 1.f / float(cols);

    float x[HELD][LANES];
    UNROLL for (int k = 0; k < HELD; ++k) {
        const int col = (lane + k * THREADS) * LANES;
        UNROLL for (int i = 0; i < LANES; ++i) x[k][i] = 0;
        if (inside && col < cols) fuse_load_x(x[k], row * x_row + col, row, col);
    }
    float sum = 0, mean = 0;
    if (!is_rms) {
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) sum += x[k][i];
        mean = row_sum<THREADS>(sum, false) * share;
    }
    float squares = 0;
    UNROLL for (int k = 0; k < HELD; ++k) {
        const bool valid = (lane + k * THREADS) * LANES < cols;
        UNROLL for (int i = 0; i < LANES; ++i) {
            const float d = valid ? x[k][i] - mean : 0;
            squares = fma(d, d, squares);
        }
    }
    const float var = row_sum<THREADS>(squares, true) * share;
    float rstd = 1.f / sqrtf(var + epsilon.load());
    if (!inside) return;
    UNROLL for (int k = 0; k < HELD; ++k) {
        const int col = (lane + k * THREADS) * LANES;
        if (col >= cols) break;
        float scale[LANES], bias[LANES], y[LANES];
        UNROLL for (int i = 0; i < LANES; ++i) scale[i] = 1, bias[i] = 0;
        fuse_load_scale(scale, row * x_row + col, row, col);
        fuse_load_bias(bias, row * x_row + col, row, col);
        UNROLL for (int i = 0; i < LANES; ++i) y[i] = fma((x[k][i] - mean) * rstd, scale[i], bias[i]);
        fuse_store(y, row * y_row + col, row, col);
    }
    if (lane) return;
    fuse_mean(mean, row);
    fuse_rstd(rstd, row);
}
