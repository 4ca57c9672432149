/*@kernel
name   = "softmax_fwd_scan_{T}"
about  = "First of two launches for few long rows: maximum and sum of a slice of a row, to the workspace."
T      = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "float* part", "int64_t x_row", "int rows", "int cols", "int slices", "int tiles"]
block  = [256, 1, 1]
grid   = ["rows * slices", 1, 1]
needs  = ["rows >= 1", "slices * tiles * (32768 // sizeof(T)) >= cols",
          "(slices - 1) * tiles * (32768 // sizeof(T)) < cols", "rows * slices < 2**31"]
problems = ["softmax_fwd 2x{65536 // sizeof(T) + 5} {T}",
            "softmax_fwd 2x{65536 // sizeof(T) + 5} algorithm=log {T}"]
@*/
// A slice is `tiles` tiles of 2048 chunks (8 a thread, all in flight at once). part[row][slice] = (max, sum).
#include "row.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, float* part, i64 x_row, int rows, int cols, int slices, int tiles) {
    constexpr int TILE = 32768 / sizeof(T);
    const int row = blockIdx.x / slices, slice = blockIdx.x % slices;
    auto whole = nothing<float>();
    i64 first = i64(slice) * tiles * TILE;
    const i64 end = min(i64(cols), first + i64(tiles) * TILE);
    do {
        FwdRow<T, 256, 8> own(threadIdx.x, row * x_row + first, min(TILE, cols - int(first)));
        own.load(x + row * x_row + first);
        own.fold_into(whole);
        first += TILE;
    } while (first < end);
    whole = block_reduce<256>(whole, Merge<T>{});
    if (threadIdx.x == 0) part[2 * i64(blockIdx.x)] = whole.max, part[2 * i64(blockIdx.x) + 1] = whole.sum;
}
