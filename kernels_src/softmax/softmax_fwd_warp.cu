/*@kernel
name   = "softmax_fwd_warp_{T}_{UNITS}"
about  = "Softmax of short rows: 8 or 32 lanes hold a row of up to {UNITS} chunks of 16 bytes in registers. One read, one write."
T      = ["f32", "f16", "bf16"]
UNITS  = [8, 32, 128, 256]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "int64_t x_row", "int64_t y_row", "int rows", "int cols", "int is_log", "float alpha", "float beta"]
block  = [128, 1, 1]
grid   = ["ceil_div(rows, 16 if UNITS <= 32 else 4)", 1, 1]
needs  = ["rows >= 1", "1 <= cols", "cols <= UNITS * 16 // sizeof(T)", "(x_row - y_row) % (16 // sizeof(T)) == 0"]
@*/
// A row has WIDTH lanes, each with CHUNKS loads of 16 bytes in flight: 8 lanes and 4 chunks hold 256 columns of bf16.
#include "row.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(const T* x, T* y, i64 x_row, i64 y_row, int rows, int cols,
                                                         int is_log, float alpha, float beta) {
    constexpr int WIDTH = UNITS <= 32 ? 8 : 32, CHUNKS = UNITS / WIDTH;
    const i64 row = i64(blockIdx.x) * (128 / WIDTH) + threadIdx.x / WIDTH;
    if (row >= rows) cols = 0;                     // nothing to load or store, but the shuffles want all lanes
    FwdRow<T, WIDTH, CHUNKS> own(threadIdx.x % WIDTH, row * x_row, cols);
    own.load(x + row * x_row);
    auto whole = nothing<float>();
    own.fold_into(whole);
    whole = warp_reduce<WIDTH>(whole, Merge<T>{});
    own.put(y + row * y_row, SoftmaxOf<T>(whole, alpha, is_log), beta);
}
