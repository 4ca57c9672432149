/*@kernel
name    = "softmax_fwd_cluster_{T}_{SIZE}_{THREADS}"
about   = """Softmax of long rows: {SIZE} blocks of a cluster hold a row in registers and shared memory. \
             One read, one write."""
T       = ["f32", "f16", "bf16"]
SIZE    = [2, 4]
THREADS = [512, 1024]
targets = ["sm_90"]
params  = ["const T* x", "T* y", "int64_t x_row", "int64_t y_row", "int rows", "int cols", "int slice",
           "int is_log", "float alpha", "float beta"]
block   = ["THREADS", 1, 1]
grid    = ["rows * SIZE", 1, 1]
smem    = "THREADS * 128"
needs   = ["rows >= 1", "1 <= slice", "slice * SIZE >= cols", "slice * (SIZE - 1) < cols",
           "slice <= THREADS * 256 // sizeof(T)", "(x_row - y_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_fwd 2x203 {T}",
            "softmax_fwd 1x{SIZE * THREADS * 256 // sizeof(T) - 3} {T}",
            "softmax_fwd 1x{SIZE * THREADS * 192 // sizeof(T) - 3} algorithm=log {T}"]
@*/
// Block `rank` of the cluster has the columns from rank * slice on: 8 chunks a thread in
// registers, 8 in shared memory.
#include "lib/cluster.cuh"
#include "row.cuh"

extern "C" __global__ __cluster_dims__(SIZE, 1, 1) __launch_bounds__(THREADS, 1024 / THREADS) void KERNEL(
        const T* x, T* y, i64 x_row, i64 y_row, int rows, int cols, int slice, int is_log, float alpha,
        float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x / SIZE;
    const int first = blockIdx.x % SIZE * slice;
    FwdRow<T, THREADS, 8, 8> own(threadIdx.x, row * x_row + first, min(slice, cols - first), stash);
    own.load(x + row * x_row + first);
    auto whole = nothing<float>();
    own.fold_into(whole);
    whole = block_reduce<THREADS>(whole, Merge<T>{});
    float parts[SIZE][2];
    cluster_gather<SIZE, 2>({whole.max, whole.sum}, parts);
    whole = nothing<float>();
    UNROLL for (int b = 0; b < SIZE; ++b) whole = Merge<T>{}(whole, MaxSum<float>{parts[b][0], parts[b][1]});
    own.put(y + row * y_row + first, SoftmaxOf<T>(whole, alpha, is_log), beta);
    cluster_leave();
}
