/*@kernel
name   = "softmax_bwd_scan_{T}"
about  = "First of two launches for few long rows: the sum of a slice of a row, to the workspace."
T      = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "float* part", "int64_t y_row", "int64_t dy_row", "int rows",
          "int cols", "int slices", "int tiles", "int is_log"]
block  = [256, 1, 1]
grid   = ["rows * slices", 1, 1]
needs  = ["rows >= 1", "slices * tiles * (16384 // sizeof(T)) >= cols",
          "(slices - 1) * tiles * (16384 // sizeof(T)) < cols", "rows * slices < 2**31",
          "(y_row - dy_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 2x{32768 // sizeof(T) + 5} {T}",
            "softmax_bwd 2x{32768 // sizeof(T) + 5} algorithm=log {T}"]
@*/
// A slice is `tiles` tiles of 1024 chunks of y and of dy (4 of each a thread). part[row][slice] = sum.
#include "row_bwd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* y, const T* dy, float* part, i64 y_row, i64 dy_row, int rows, int cols, int slices, int tiles,
    int is_log) {
    constexpr int TILE = 16384 / sizeof(T);
    const int row = blockIdx.x / slices, slice = blockIdx.x % slices;
    float sum = 0;
    i64 first = i64(slice) * tiles * TILE;
    const i64 end = min(i64(cols), first + i64(tiles) * TILE);
    do {
        BwdRow<T, 256, 4> own(threadIdx.x, row * y_row + first, min(TILE, cols - int(first)));
        own.load(y + row * y_row + first, dy + row * dy_row + first);
        sum += own.sum(is_log);
        first += TILE;
    } while (first < end);
    sum = block_sum<256>(sum);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}
