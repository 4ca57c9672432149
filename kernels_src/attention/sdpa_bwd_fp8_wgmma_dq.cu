/*@kernel
name    = "sdpa_bwd_fp8_wgmma_dq_{DEPTH}_{ROWS}x{STEPS}"
about   = """The gradient of attention's queries, of operands of 8 bits that were widened to bf16, on \
             Hopper's tensor cores (TMA, wgmma, f32 sums), heads of up to DEPTH elements; their factors; the \
             largest gradients of scores; bounds, lengths, shared heads."""
DEPTH   = [64, 128]
ROWS    = [128, 192]
STEPS   = [64]
when    = ["(DEPTH, ROWS) == (64, 192) or (DEPTH, ROWS) == (128, 128)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap q", "const CUtensorMap o", "const CUtensorMap k", "const CUtensorMap v",
           "float* dq", "float* peaks", "const float* logs", "const float* dots", "const int* len_q",
           "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "Number<float> scale",
           "Number<float> of_q", "Number<float> of_k", "Number<float> of_v", "Number<float> of_do",
           "int batches", "int heads", "int per_kv", "int s_q", "int s_kv", "int d_qk", "int left",
           "int right", "int from_end", "int section", "Array<int64_t, 3> dq_steps",
           "Array<int64_t, 3> peak_steps"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "heads % per_kv == 0",
           "d_qk % 16 == 0", "0 <= left <= 536870912", "0 <= right <= 536870912",
           "1 <= blocks <= ceil_div(s_q, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa_bwd q=2x2x{ROWS + 40}x{DEPTH - 16}:f8_e4m3 \
       k=2x1x{DEPTH - 16}x200:f8_e4m3@{200 * (DEPTH - 16)},{200 * (DEPTH - 16)},1,{DEPTH - 16} \
       v=2x1x200x{DEPTH - 32}:f8_e5m2 o=2x2x{ROWS + 40}x{DEPTH - 32}:f8_e4m3 \
       do=2x2x{ROWS + 40}x{DEPTH - 32}:f8_e5m2 stats=2x2x{ROWS + 40}x1:f32 peak=2x2x{ROWS + 40}x1:f32 \
       dq=2x2x{ROWS + 40}x{DEPTH - 16}:f32 \
       dk=2x1x{DEPTH - 16}x200:f32@{200 * (DEPTH - 16)},{200 * (DEPTH - 16)},1,{DEPTH - 16} \
       dv=2x1x200x{DEPTH - 32}:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa_bwd q=1x1x450x{DEPTH}:f8_e4m3 k=1x1x{DEPTH}x200:f8_e4m3@{200 * DEPTH},{200 * DEPTH},1,{DEPTH} \
       v=1x1x200x{DEPTH}:f8_e4m3 o=1x1x450x{DEPTH}:f8_e4m3 do=1x1x450x{DEPTH}:f8_e4m3 stats=1x1x450x1:f32 \
       dq=1x1x450x{DEPTH}:f32 dk=1x1x{DEPTH}x200:f32@{200 * DEPTH},{200 * DEPTH},1,{DEPTH} \
       dv=1x1x200x{DEPTH}:f32 right=0 diagonal=bottom_right""",
    """sdpa_bwd q=1x1x35x{DEPTH}:f8_e4m3 k=1x1x{DEPTH}x300:f8_e4m3@{300 * DEPTH},{300 * DEPTH},1,{DEPTH} \
       v=1x1x300x{DEPTH}:f8_e4m3 o=1x1x35x{DEPTH}:f8_e4m3 do=1x1x35x{DEPTH}:f8_e4m3 stats=1x1x35x1:f32 \
       dq=1x1x35x{DEPTH}:f32 dk=1x1x{DEPTH}x300:f32@{300 * DEPTH},{300 * DEPTH},1,{DEPTH} \
       dv=1x1x300x{DEPTH}:f32 len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32 peak=1x1x35x1:f32"""]
@*/
// sdpa_bwd_wgmma_dq.cu, but that q, k, v and do (o) stand for of_q and so on times what they hold, heads lie
// one behind the other, and dq is stored as it is summed. peaks: of each query the largest |gradient of
// scale * q @ k| times |scale|, or null.
#include "bwd_fp8_wgmma.cuh"

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap o,
    const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, float* dq, float* peaks,
    const float* logs, const float* dots, const int* len_q, const int* len_kv, i64 len_q_step,
    i64 len_kv_step, Number<float> scale, Number<float> of_q, Number<float> of_k, Number<float> of_v,
    Number<float> of_do, int batches, int heads, int per_kv, int s_q, int s_kv, int d_qk, int left, int right,
    int from_end, int section, Array<i64, 3> dq_steps, Array<i64, 3> peak_steps) {
    using Tile = SdpaBwdTile<bf16, DEPTH, ROWS, STEPS>;
    extern __shared__ unsigned char memory[];
    const SdpaBwdShared<Tile> shared(memory);
    SdpaBwdOrder<Tile> order = {{len_q, len_q_step, s_q}, {len_kv, len_kv_step, s_kv}, batches, heads,
                                section, from_end, true, {left, right}};
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);         // the same in a warp, as all may know
    if (threadIdx.x == 0) shared.init(1);
    if (threadIdx.x == 32) tensor_ahead(q), tensor_ahead(o), tensor_ahead(k), tensor_ahead(v);
    __syncthreads();
    if (role == 0) {
        registers_give<Tile::gives>();
        const Array<int, 2> moves = {{1, 1}};
        if (threadIdx.x < 32)
            sdpa_bwd_bring<Tile, false>(shared, order, 1, {{q, 1, moves}, {o, 1, moves}, {k, per_kv, moves},
                                                           {v, per_kv, moves}});
        return;
    }
    registers_take<Tile::takes>();
    const SdpaBwdScaled slope = {of_do.load() * of_v.load()};
    SdpaBwdSums<Tile> sums = {shared, role - 1, sdpa_bwd_scale(scale.load() * of_q.load() * of_k.load())};
    const int at = sums.group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int n = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        SdpaBwdSums<Tile>::Sums to = {};
        SdpaBwdLargest largest;
        const int row = order.w.row + at;
        float log[2], dot[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            const i64 place = (i64(order.w.batch) * heads + order.w.head) * s_q + row + 8 * h;
            const bool is_there = row + 8 * h < s_q;
            log[h] = is_there ? logs[place] : INFINITY, dot[h] = is_there ? dots[place] : 0;
        }
        sums.begin(tile);
        sdpa_bwd_steps_dq(sums, order.band, row, n, slope, log, dot, largest, to);
        sums.end();
        if (order.w.row + Tile::rows > order.band.own) sums.drop(to, order.band.own - row);
        const auto place = [&](const Array<i64, 3>& steps) {
            return order.w.batch * steps[0] + order.w.head * steps[1] + row * steps[2];
        };
        sdpa_bwd_write<Tile>(to, scale.load() * of_k.load(), dq + place(dq_steps), dq_steps[2], s_q - row,
                             d_qk);
        if (!peaks) continue;
        UNROLL for (int h = 0; h < 2; ++h) {
            const float most = largest.all(h) * fabsf(scale.load());
            if (threadIdx.x % 4 == 0 && row + 8 * h < s_q)
                peaks[place(peak_steps) + 8 * h * peak_steps[2]] = row + 8 * h < order.band.own ? most : 0;
        }
    }
}
