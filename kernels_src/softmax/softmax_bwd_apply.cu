/*@kernel
name   = "softmax_bwd_apply_{T}"
about  = "Second of two launches for few long rows: add the slices' sums, write a slice of dx."
T      = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "T* dx", "const float* part", "int64_t y_row", "int64_t dy_row",
          "int64_t dx_row", "int rows", "int cols", "int slices", "int tiles", "int is_log", "float alpha",
          "float beta"]
block  = [256, 1, 1]
grid   = ["rows * slices", 1, 1]
needs  = ["rows >= 1", "slices * tiles * (16384 // sizeof(T)) >= cols",
          "(slices - 1) * tiles * (16384 // sizeof(T)) < cols", "rows * slices < 2**31",
          "(y_row - dx_row) % (16 // sizeof(T)) == 0", "(dy_row - dx_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 2x{32768 // sizeof(T) + 5} {T}",
            "softmax_bwd 2x{32768 // sizeof(T) + 5} algorithm=log {T}"]
@*/
// Blocks go backwards through what softmax_bwd_scan has read: the end of it is still in the L2 cache.
#include "row_bwd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* y, const T* dy, T* dx, const float* part, i64 y_row, i64 dy_row, i64 dx_row, int rows, int cols,
    int slices, int tiles, int is_log, float alpha, float beta) {
    constexpr int TILE = 16384 / sizeof(T);
    const int block = gridDim.x - 1 - blockIdx.x, row = block / slices, slice = block % slices;
    const i64 begin = i64(slice) * tiles * TILE;
    const int last = int(min(i64(tiles), ceil_div(cols - begin, i64(TILE)))) - 1;
    float sum = 0;
    NO_UNROLL for (int t = last; t >= 0; --t) {
        const i64 first = begin + t * TILE;
        BwdRow<T, 256, 4> own(threadIdx.x, row * y_row + first, min(TILE, cols - int(first)));
        own.load(y + row * y_row + first, dy + row * dy_row + first);
        if (t == last) {                                       // while the first tile is under way
            NO_UNROLL for (int s = threadIdx.x; s < slices; s += 256) sum += part[i64(row) * slices + s];
            sum = block_sum<256>(sum);
        }
        own.put(dx + row * dx_row + first, GradientOf<T>{sum, alpha, bool(is_log)}, beta);
    }
}
