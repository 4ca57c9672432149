/*@kernel
name   = "sdpa_bwd_any_dsink_{S}"
about  = "The gradient of attention's sinks: of each head a sum over batches and queries in a fixed order."
S      = ["f32", "f64"]
params = ["const int* len_q", "int64_t len_q_step", "const S* dots", "int batches", "int heads", "int s_q",
          "Array<int64_t, 3> stats_steps", "const int* stats_at", "int wide", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["heads", 1, 1]
smem   = 0
needs  = ["s_q >= 1"]
marks  = ["load_stats", "load_sink", "store_dsink"]
problems = [
    """sdpa_bwd 3x2x300x8 3x2x8x9 3x2x9x8 sink=1x2x1x1:f32 dsink=1x2x1x1:f32 len_q=3x1x1x1:i32 acc={S} \
       {'f32' if S == f32 else 'f64'}"""]
@*/
// dots: of each query the sum of do * o, as sdpa_bwd_any_dq.cu leaves it.
#include "attention/any_bwd.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, i64 len_q_step, const S* dots, int batches, int heads, int s_q,
    Array<i64, 3> stats_steps, const int* stats_at, int wide, Fuse fuse) {
    __shared__ S sums[4];
    const int head = blockIdx.x;
    S sink = 0, sum = 0;
    fuse_load_sink(sink, 0, head);
    for (int batch = 0; batch < batches; ++batch) {
        const Batch stats_in(stats_at, wide & 1, batch, stats_steps[0]);
        const int n_q = len_q ? min(len_q[batch * len_q_step], s_q) : s_q;
        NO_UNROLL for (int row = threadIdx.x; row < n_q; row += 128) {
            S size = 0;
            CYDNN_LOAD_STATS(size, batch, head, row);
            const S weight = size == -S(INFINITY) ? S(0) : exp(sink - size);
            sum -= weight * dots[(i64(batch) * heads + head) * s_q + row];
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    S all = sums[0] + sums[1] + sums[2] + sums[3];
    if (threadIdx.x == 0) fuse_store_dsink(all, 0, head);
}
