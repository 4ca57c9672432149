/*@kernel
name    = "softmax_fwd_grid_{T}"
about   = """Softmax of few very long rows in one launch: the blocks of a row hold it in registers and \
             shared memory, and meet at a barrier of the grid. One read, one write."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_80"]
params  = ["const T* x", "T* y", "float* part", "int64_t x_row", "int64_t y_row", "int rows", "int cols",
           "int slices", "int slice", "int is_log", "float alpha", "float beta"]
block   = [1024, 1, 1]
grid    = ["rows * slices", 1, 1]
smem    = 131072
cooperative = true
needs   = ["rows >= 1", "slice >= 1", "slice * slices >= cols", "slice * (slices - 1) < cols",
           "slice <= 262144 // sizeof(T)", "(x_row - y_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_fwd 1x{262144 // sizeof(T) - 3} {T}",
            "softmax_fwd 2x{147456 // sizeof(T) + 5} {T} algorithm=log"]
@*/
// Block s of a row has the columns from s * slice on: 8 chunks a thread in registers, 8 in shared memory.
// Every warp merges the parts of its row by itself, in the same order.
#include "lib/grid.cuh"
#include "row.cuh"

extern "C" __global__ __launch_bounds__(1024, 1) void KERNEL(
        const T* x, T* y, float* part, i64 x_row, i64 y_row, int rows, int cols, int slices, int slice,
        int is_log, float alpha, float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x / slices, first = i64(blockIdx.x % slices) * slice;
    FwdRow<T, 1024, 8, 8> own(threadIdx.x, row * x_row + first, int(min(i64(slice), cols - first)), stash);
    own.load(x + row * x_row + first);
    auto whole = nothing<float>();
    own.fold_into(whole);
    whole = block_reduce<1024>(whole, Merge<T>{});
    float2* parts = reinterpret_cast<float2*>(part);
    if (threadIdx.x == 0) parts[blockIdx.x] = {whole.max, whole.sum};
    grid_barrier();
    whole = nothing<float>();
    NO_UNROLL for (int s = threadIdx.x % 32; s < slices; s += 32) {
        const float2 p = parts[row * slices + s];
        whole = Merge<T>{}(whole, MaxSum<float>{p.x, p.y});
    }
    own.put(y + row * y_row + first, SoftmaxOf<T>(warp_reduce(whole, Merge<T>{}), alpha, is_log), beta);
}
