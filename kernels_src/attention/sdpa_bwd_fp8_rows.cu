/*@kernel
name    = "sdpa_bwd_fp8_rows_{O}_{D}"
about   = """What the gradients of attention of 8 bits need of each query: the sum of do * o, and its \
             statistics in powers of two; do is widened to bf16."""
O       = ["f8_e4m3", "f8_e5m2"]
D       = ["f8_e4m3", "f8_e5m2"]
targets = ["sm_90a"]
params  = ["const O* o", "const D* d_o", "const float* stats", "bf16* wide", "float* logs",
           "float* dots", "Number<float> of_o", "Number<float> of_do", "int batches", "int heads",
           "int s_q", "int d_v", "const int* len_q", "int64_t len_q_step", "Array<int64_t, 3> o_steps",
           "Array<int64_t, 3> do_steps", "Array<int64_t, 3> stats_steps"]
block   = [256, 1, 1]
grid    = ["ceil_div(s_q, 32) * batches * heads", 1, 1]
needs   = ["1 <= s_q <= 268435456", "d_v % 16 == 0", "16 <= d_v <= 128",
           "ceil_div(s_q, 32) * batches * heads < 2147483648"]
problems = [
    """sdpa_bwd q=1x2x35x16:{O} k=1x1x16x16:{O}@256,256,1,16 v=1x1x16x48:{O} o=1x2x35x48:{O} \
       do=1x2x35x48:{D} stats=1x2x35x1:f32 len_q=1x1x1x1:i32 dq=1x2x35x16:f32 dk=1x1x16x16:f32@256,256,1,16 \
       dv=1x1x16x48:f32"""]
@*/
// 8 threads have a query, each 16 elements of it. o and do stand for of_o and of_do times what they hold. A
// query that sees no key, or lies beyond the length of its batch, has weights of 0: its logs are infinite.
// wide: do, heads one behind the other, 0 beyond that length.
#include "fp8.cuh"
#include "lib/math.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const O* o, const D* d_o, const float* stats, bf16* wide, float* logs, float* dots, Number<float> of_o,
    Number<float> of_do, int batches, int heads, int s_q, int d_v, const int* len_q, i64 len_q_step,
    Array<i64, 3> o_steps, Array<i64, 3> do_steps, Array<i64, 3> stats_steps) {
    const int tiles = ceil_div(s_q, 32), n = blockIdx.x / tiles, batch = n / heads, head = n - batch * heads;
    const int row = (blockIdx.x - n * tiles) * 32 + threadIdx.x / 8, column = threadIdx.x % 8 * 16;
    const auto at = [&](const Array<i64, 3>& steps) {
        return batch * steps[0] + head * steps[1] + row * steps[2];
    };
    const bool is_there = row < (len_q ? min(len_q[batch * len_q_step], s_q) : s_q);
    Eights<O> x;
    Eights<D> y;
    if (is_there && column < d_v)
        x = Eights<O>::load(o + at(o_steps) + column), y = Eights<D>::load(d_o + at(do_steps) + column);
    const i64 to = i64(n) * s_q + row;
    if (row < s_q && column < d_v) y.widen(wide + to * d_v + column);
    float sum = 0;
    UNROLL for (int i = 0; i < 8; ++i) sum = fmaf(x[i].x, y[i].x, fmaf(x[i].y, y[i].y, sum));
    UNROLL for (int i = 4; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (row >= s_q || column > 0) return;
    const float found = is_there ? stats[at(stats_steps)] : -INFINITY;
    logs[to] = found == -INFINITY ? INFINITY : found * 1.4426950408889634f;
    dots[to] = found == -INFINITY ? 0 : sum * of_o.load() * of_do.load();
}
