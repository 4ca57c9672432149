/*@kernel
name   = "softmax_bwd_warp_{T}_{UNITS}"
about  = """Softmax gradient of short rows: 8 or 32 lanes hold up to {UNITS} chunks of y and of dy in \
            registers. One read, one write."""
T      = ["f32", "f16", "bf16"]
UNITS  = [8, 32, 128, 256]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "T* dx", "int64_t y_row", "int64_t dy_row", "int64_t dx_row",
          "int rows", "int cols", "int is_log", "float alpha", "float beta"]
block  = [128, 1, 1]
grid   = ["ceil_div(rows, 16 if UNITS <= 32 else 4)", 1, 1]
needs  = ["rows >= 1", "1 <= cols", "cols <= UNITS * 16 // sizeof(T)",
          "(y_row - dx_row) % (16 // sizeof(T)) == 0", "(dy_row - dx_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 5x{UNITS * 8 // sizeof(T) + 5} {T}",
            "softmax_bwd 5x{UNITS * 16 // sizeof(T) - 3} algorithm=log {T}",
            "softmax_bwd 5x{UNITS * 16 // sizeof(T)} {T}"]
@*/
// A row has WIDTH lanes, each with CHUNKS chunks of y and of dy in flight.
#include "row_bwd.cuh"

extern "C" __global__ __launch_bounds__(128, UNITS <= 128 ? 8 : 4) void KERNEL(
    const T* y, const T* dy, T* dx, i64 y_row, i64 dy_row, i64 dx_row, int rows, int cols, int is_log,
    float alpha, float beta) {
    constexpr int WIDTH = UNITS <= 32 ? 8 : 32, CHUNKS = UNITS / WIDTH;
    const i64 row = i64(blockIdx.x) * (128 / WIDTH) + threadIdx.x / WIDTH;
    if (row >= rows) cols = 0;  // nothing to load or store, but the shuffles want all lanes
    BwdRow<T, WIDTH, CHUNKS> own(threadIdx.x % WIDTH, row * y_row, cols);
    own.load(y + row * y_row, dy + row * dy_row);
    const float sum = warp_sum<WIDTH>(own.sum(is_log));
    own.put(dx + row * dx_row, GradientOf<T>{sum, alpha, bool(is_log)}, beta);
}
