/*@kernel
name   = "softmax_fwd_apply_{T}"
about  = """Second of two launches for few long rows: merge the slices' maxima and sums, \
            write a slice of the row."""
T      = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "const float* part", "int64_t x_row", "int64_t y_row", "int rows", "int cols",
          "int slices", "int tiles", "int is_log", "float alpha", "float beta"]
block  = [256, 1, 1]
grid   = ["rows * slices", 1, 1]
needs  = ["rows >= 1", "slices * tiles * (32768 // sizeof(T)) >= cols",
          "(slices - 1) * tiles * (32768 // sizeof(T)) < cols", "rows * slices < 2**31",
          "(x_row - y_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_fwd 2x{65536 // sizeof(T) + 5} {T}",
            "softmax_fwd 2x{65536 // sizeof(T) + 5} algorithm=log {T}"]
@*/
// Blocks go backwards through what softmax_fwd_scan has read: the end of it is still in the L2 cache.
#include "row.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, T* y, const float* part, i64 x_row, i64 y_row, int rows, int cols, int slices, int tiles,
    int is_log, float alpha, float beta) {
    constexpr int TILE = 32768 / sizeof(T);
    const int block = gridDim.x - 1 - blockIdx.x, row = block / slices, slice = block % slices;
    const float2* parts = reinterpret_cast<const float2*>(part) + i64(row) * slices;
    const i64 begin = i64(slice) * tiles * TILE;
    const int last = int(min(i64(tiles), ceil_div(cols - begin, i64(TILE)))) - 1;
    SoftmaxOf<T> of;
    NO_UNROLL for (int t = last; t >= 0; --t) {
        const i64 first = begin + t * TILE;
        FwdRow<T, 256, 8> own(threadIdx.x, row * x_row + first, min(TILE, cols - int(first)));
        own.load(x + row * x_row + first);
        if (t == last) {                                       // while the first tile is under way
            auto whole = nothing<float>();
            NO_UNROLL for (int s = threadIdx.x; s < slices; s += 256)
                whole = Merge<T>{}(whole, MaxSum<float>{parts[s].x, parts[s].y});
            of = SoftmaxOf<T>(block_reduce<256>(whole, Merge<T>{}), alpha, is_log);
        }
        own.put(y + row * y_row + first, of, beta);
    }
}
