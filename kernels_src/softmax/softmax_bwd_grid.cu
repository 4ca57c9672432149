/*@kernel
name    = "softmax_bwd_grid_{T}"
about   = """Softmax gradient of few very long rows in one launch: the blocks of a row hold y and dy in \
             registers and shared memory, and meet at a barrier of the grid. One read, one write."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_80"]
params  = ["const T* y", "const T* dy", "T* dx", "float* part", "int64_t y_row", "int64_t dy_row",
           "int64_t dx_row", "int rows", "int cols", "int slices", "int slice", "int is_log", "float alpha",
           "float beta"]
block   = [1024, 1, 1]
grid    = ["rows * slices", 1, 1]
smem    = 131072
cooperative = true
needs   = ["rows >= 1", "slice >= 1", "slice * slices >= cols", "slice * (slices - 1) < cols",
           "slice <= 131072 // sizeof(T)", "(y_row - dx_row) % (16 // sizeof(T)) == 0",
           "(dy_row - dx_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 1x{131072 // sizeof(T) - 3} {T}",
            "softmax_bwd 2x{73728 // sizeof(T) + 5} {T} algorithm=log"]
@*/
// Blocks as in softmax_fwd_grid: 4 chunks of y and dy a thread in registers, 4 in shared memory.
#include "lib/grid.cuh"
#include "row_bwd.cuh"

extern "C" __global__ __launch_bounds__(1024, 1) void KERNEL(
        const T* y, const T* dy, T* dx, float* part, i64 y_row, i64 dy_row, i64 dx_row, int rows, int cols,
        int slices, int slice, int is_log, float alpha, float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x / slices, first = i64(blockIdx.x % slices) * slice;
    BwdRow<T, 1024, 4, 4> own(threadIdx.x, row * y_row + first, int(min(i64(slice), cols - first)), stash);
    own.load(y + row * y_row + first, dy + row * dy_row + first);
    const float mine = block_sum<1024>(own.sum(is_log));
    if (threadIdx.x == 0) part[blockIdx.x] = mine;
    grid_barrier();
    float sum = 0;
    NO_UNROLL for (int s = threadIdx.x % 32; s < slices; s += 32) sum += part[row * slices + s];
    own.put(dx + row * dx_row + first, GradientOf<T>{warp_sum(sum), alpha, bool(is_log)}, beta);
}
