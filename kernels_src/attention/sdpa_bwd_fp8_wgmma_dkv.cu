/*@kernel
name    = "sdpa_bwd_fp8_wgmma_dkv_{DEPTH}_{ROWS}x{STEPS}"
about   = """The gradients of attention's keys and values, of operands of 8 bits that were widened to bf16, \
             on Hopper's tensor cores (TMA, wgmma, f32 sums), heads of up to DEPTH elements; their factors; \
             bounds, lengths; heads that share keys are summed in order."""
DEPTH   = [64, 128]
ROWS    = [128]
STEPS   = [64, 96]
when    = ["(DEPTH, STEPS) == (64, 96) or (DEPTH, STEPS) == (128, 64)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap k", "const CUtensorMap v", "const CUtensorMap q", "const CUtensorMap o",
           "float* dk", "float* dv", "const float* logs", "const float* dots", "const int* len_q",
           "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "Number<float> scale",
           "Number<float> of_q", "Number<float> of_k", "Number<float> of_v", "Number<float> of_do",
           "int batches", "int heads", "int span", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left",
           "int right", "int from_end", "int section", "Array<int64_t, 3> dk_steps",
           "Array<int64_t, 3> dv_steps"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "span >= 1",
           "d_qk % 16 == 0", "d_v % 16 == 0", "0 <= left <= 536870912", "0 <= right <= 536870912",
           "1 <= blocks <= ceil_div(s_kv, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa_bwd q=2x2x{ROWS + 40}x{DEPTH - 16}:f8_e4m3 \
       k=2x1x{DEPTH - 16}x200:f8_e4m3@{200 * (DEPTH - 16)},{200 * (DEPTH - 16)},1,{DEPTH - 16} \
       v=2x1x200x{DEPTH - 32}:f8_e5m2 o=2x2x{ROWS + 40}x{DEPTH - 32}:f8_e4m3 \
       do=2x2x{ROWS + 40}x{DEPTH - 32}:f8_e5m2 stats=2x2x{ROWS + 40}x1:f32 \
       dq=2x2x{ROWS + 40}x{DEPTH - 16}:f32 \
       dk=2x1x{DEPTH - 16}x200:f32@{200 * (DEPTH - 16)},{200 * (DEPTH - 16)},1,{DEPTH - 16} \
       dv=2x1x200x{DEPTH - 32}:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa_bwd q=1x1x200x{DEPTH}:f8_e4m3 k=1x1x{DEPTH}x400:f8_e4m3@{400 * DEPTH},{400 * DEPTH},1,{DEPTH} \
       v=1x1x400x{DEPTH}:f8_e4m3 o=1x1x200x{DEPTH}:f8_e4m3 do=1x1x200x{DEPTH}:f8_e4m3 stats=1x1x200x1:f32 \
       dq=1x1x200x{DEPTH}:f32 dk=1x1x{DEPTH}x400:f32@{400 * DEPTH},{400 * DEPTH},1,{DEPTH} \
       dv=1x1x400x{DEPTH}:f32 right=0""",
    """sdpa_bwd q=1x1x300x{DEPTH}:f8_e4m3 k=1x1x{DEPTH}x35:f8_e4m3@{35 * DEPTH},{35 * DEPTH},1,{DEPTH} \
       v=1x1x35x{DEPTH}:f8_e4m3 o=1x1x300x{DEPTH}:f8_e4m3 do=1x1x300x{DEPTH}:f8_e4m3 stats=1x1x300x1:f32 \
       dq=1x1x300x{DEPTH}:f32 dk=1x1x{DEPTH}x35:f32@{35 * DEPTH},{35 * DEPTH},1,{DEPTH} \
       dv=1x1x35x{DEPTH}:f32 len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32"""]
@*/
// sdpa_bwd_wgmma_dkv.cu, but that q, k, v and do (o) stand for of_q and so on times what they hold, heads lie
// one behind the other, and the gradients are stored as they are summed. heads: of k and v, which `span`
// heads of q read.
#include "bwd_fp8_wgmma.cuh"

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap o, float* dk, float* dv,
    const float* logs, const float* dots, const int* len_q, const int* len_kv, i64 len_q_step,
    i64 len_kv_step, Number<float> scale, Number<float> of_q, Number<float> of_k, Number<float> of_v,
    Number<float> of_do, int batches, int heads, int span, int s_q, int s_kv, int d_qk, int d_v, int left,
    int right, int from_end, int section, Array<i64, 3> dk_steps, Array<i64, 3> dv_steps) {
    using Tile = SdpaBwdTile<bf16, DEPTH, ROWS, STEPS>;
    extern __shared__ unsigned char memory[];
    const SdpaBwdShared<Tile> shared(memory);
    SdpaBwdOrder<Tile> order = {{len_kv, len_kv_step, s_kv}, {len_q, len_q_step, s_q}, batches, heads,
                                section, from_end, false, {left, right}};
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);         // the same in a warp, as all may know
    if (threadIdx.x == 0) shared.init(2);
    if (threadIdx.x == 32) tensor_ahead(k), tensor_ahead(v), tensor_ahead(q), tensor_ahead(o);
    __syncthreads();
    if (role == 0) {
        registers_give<Tile::gives>();
        const Array<int, 2> moves = {{1, 1}};
        if (threadIdx.x < 32)
            sdpa_bwd_bring<Tile, true>(shared, order, span, {{k, 1, moves}, {v, 1, moves}, {q, 1, moves},
                                                             {o, 1, moves}, logs, dots});
        return;
    }
    registers_take<Tile::takes>();
    const SdpaBwdScaled slope = {of_do.load() * of_v.load()};
    SdpaBwdSums<Tile> sums = {shared, role - 1, sdpa_bwd_scale(scale.load() * of_q.load() * of_k.load())};
    const int at = sums.group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int n = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        SdpaBwdSums<Tile>::Sums to_k = {}, to_v = {};
        const int row = order.w.row + at;
        sums.begin(tile);
        sdpa_bwd_steps_dkv(sums, order.band, span, row, n, slope, to_k, to_v);
        sums.end();
        if (order.w.row + Tile::rows > order.band.own)
            sums.drop(to_k, order.band.own - row), sums.drop(to_v, order.band.own - row);
        const auto place = [&](const Array<i64, 3>& steps) {
            return order.w.batch * steps[0] + order.w.head * steps[1] + row * steps[2];
        };
        sdpa_bwd_write<Tile>(to_k, scale.load() * of_q.load(), dk + place(dk_steps), dk_steps[2], s_kv - row,
                             d_qk);
        sdpa_bwd_write<Tile>(to_v, of_do.load(), dv + place(dv_steps), dv_steps[2], s_kv - row, d_v);
    }
}
