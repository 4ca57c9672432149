/*@kernel
name    = "sdpa_bwd_wgmma_rows_{T}"
about   = """What the gradients of attention need of each query: the sum of do * o, and its statistics in \
             powers of two."""
T       = ["f16", "bf16"]
targets = ["sm_90a"]
params  = ["const T* o", "const T* d_o", "const float* stats", "float* logs", "float* dots", "int batches",
           "int heads", "int s_q", "int d_v", "const int* len_q", "int64_t len_q_step",
           "Array<int64_t, 3> o_steps", "Array<int64_t, 3> do_steps", "Array<int64_t, 3> stats_steps"]
block   = [256, 1, 1]
grid    = ["ceil_div(s_q, 32) * batches * heads", 1, 1]
needs   = ["1 <= s_q <= 268435456", "d_v % 8 == 0", "8 <= d_v <= 256",
           "ceil_div(s_q, 32) * batches * heads < 2147483648"]
problems = [
    """sdpa_bwd q=1x2x35x8:{T} k=1x1x8x16:{T}@128,128,1,8 v=1x1x16x200:{T} o=1x2x35x200:{T} \
       do=1x2x35x200:{T} stats=1x2x35x1:f32 len_q=1x1x1x1:i32"""]
@*/
// 8 threads have a query, each 8 elements of it in each quarter. A query that sees no key, or lies beyond the
// length of its batch, has weights of 0: its logs are infinite.
#include "lib/types.cuh"
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* o, const T* d_o, const float* stats, float* logs, float* dots, int batches, int heads, int s_q,
    int d_v, const int* len_q, i64 len_q_step, Array<i64, 3> o_steps, Array<i64, 3> do_steps,
    Array<i64, 3> stats_steps) {
    const int tiles = ceil_div(s_q, 32), n = blockIdx.x / tiles, batch = n / heads, head = n - batch * heads;
    const int row = (blockIdx.x - n * tiles) * 32 + threadIdx.x / 8, column = threadIdx.x % 8 * 8;
    const auto at = [&](const Array<i64, 3>& steps) {
        return batch * steps[0] + head * steps[1] + row * steps[2] + column;
    };
    const bool is_there = row < (len_q ? min(len_q[batch * len_q_step], s_q) : s_q);
    Vec<T, 8> x[4] = {}, y[4] = {};
    UNROLL for (int i = 0; i < 4; ++i)
        if (is_there && column + 64 * i < d_v)
            x[i] = Vec<T, 8>::load_nc(o + at(o_steps) + 64 * i),
            y[i] = Vec<T, 8>::load_nc(d_o + at(do_steps) + 64 * i);
    float sum = 0;
    UNROLL for (int i = 0; i < 32; ++i)
        sum = fmaf(to_acc<float>(x[i / 8][i % 8]), to_acc<float>(y[i / 8][i % 8]), sum);
    UNROLL for (int i = 4; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (row >= s_q || column > 0) return;
    float found = -INFINITY;
    if (is_there) found = stats[batch * stats_steps[0] + head * stats_steps[1] + row * stats_steps[2]];
    const i64 to = i64(n) * s_q + row;
    logs[to] = found == -INFINITY ? INFINITY : found * 1.4426950408889634f;
    dots[to] = found == -INFINITY ? 0 : sum;
}
