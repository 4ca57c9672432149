/*@kernel
name    = "softmax_bwd_cluster_{T}_{SIZE}_{THREADS}"
about   = """Softmax gradient of long rows: {SIZE} blocks of a cluster hold y and dy in registers and shared \
             memory. One read, one write."""
T       = ["f32", "f16", "bf16"]
SIZE    = [2, 4]
THREADS = [512, 1024]
targets = ["sm_90"]
params  = ["const T* y", "const T* dy", "T* dx", "int64_t y_row", "int64_t dy_row", "int64_t dx_row",
           "int rows", "int cols", "int slice", "int is_log", "float alpha", "float beta"]
block   = ["THREADS", 1, 1]
grid    = ["rows * SIZE", 1, 1]
smem    = "THREADS * 128"
needs   = ["rows >= 1", "1 <= slice", "slice * SIZE >= cols", "slice * (SIZE - 1) < cols",
           "slice <= THREADS * 128 // sizeof(T)", "(y_row - dx_row) % (16 // sizeof(T)) == 0",
           "(dy_row - dx_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 2x203 {T}",
            "softmax_bwd 1x{SIZE * THREADS * 96 // sizeof(T) - 3} {T}",
            "softmax_bwd 1x{SIZE * THREADS * 96 // sizeof(T) - 3} algorithm=log {T}"]
@*/
// Block `rank` of the cluster has the columns from rank * slice on: 4 chunks of y and dy a thread in
// registers, 4 in shared memory.
#include "lib/cluster.cuh"
#include "row_bwd.cuh"

extern "C" __global__ __cluster_dims__(SIZE, 1, 1) __launch_bounds__(THREADS, 1024 / THREADS) void KERNEL(
        const T* y, const T* dy, T* dx, i64 y_row, i64 dy_row, i64 dx_row, int rows, int cols, int slice,
        int is_log, float alpha, float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x / SIZE;
    const int first = blockIdx.x % SIZE * slice;
    BwdRow<T, THREADS, 4, 4> own(threadIdx.x, row * y_row + first, min(slice, cols - first), stash);
    own.load(y + row * y_row + first, dy + row * dy_row + first);
    float parts[SIZE][1], sum = block_sum<THREADS>(own.sum(is_log));
    cluster_gather<SIZE, 1>({sum}, parts);
    sum = 0;
    UNROLL for (int b = 0; b < SIZE; ++b) sum += parts[b][0];
    own.put(dx + row * dx_row + first, GradientOf<T>{sum, alpha, bool(is_log)}, beta);
    cluster_leave();
}
