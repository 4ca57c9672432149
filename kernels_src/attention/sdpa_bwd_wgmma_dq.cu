/*@kernel
name    = "sdpa_bwd_wgmma_dq_{T}_{DEPTH}_{ROWS}x{STEPS}"
about   = """The gradient of attention's queries on Hopper's tensor cores (TMA, wgmma, f32 sums), heads of \
             up to DEPTH elements; bounds, lengths, shared heads."""
T       = ["f16", "bf16"]
DEPTH   = [64, 128, 256]
ROWS    = [128, 192]
STEPS   = [48, 64]
when    = ["""(DEPTH, ROWS, STEPS) == (64, 192, 64) or (DEPTH, ROWS, STEPS) == (128, 128, 64) or \
              (DEPTH, ROWS, STEPS) == (256, 128, 48)"""]
targets = ["sm_90a"]
params  = ["const CUtensorMap q", "const CUtensorMap o", "const CUtensorMap k", "const CUtensorMap v",
           "const CUtensorMap dq", "const float* logs", "const float* dots", "const int* len_q",
           "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "Number<float> scale",
           "int batches", "int heads", "int per_kv", "int s_q", "int s_kv", "int left", "int right",
           "int from_end", "int section", "Array<int, 2> q_moves", "Array<int, 2> o_moves",
           "Array<int, 2> k_moves", "Array<int, 2> v_moves"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "heads % per_kv == 0",
           "0 <= left <= 536870912", "0 <= right <= 536870912",
           "1 <= blocks <= ceil_div(s_q, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa_bwd q=2x2x{ROWS + 40}x{DEPTH - 8}:{T} \
       k=2x1x{DEPTH - 8}x200:{T}@{200 * (DEPTH - 8)},{200 * (DEPTH - 8)},1,{DEPTH - 8} \
       v=2x1x200x{DEPTH - 24}:{T} o=2x2x{ROWS + 40}x{DEPTH - 24}:{T} do=2x2x{ROWS + 40}x{DEPTH - 24}:{T} \
       stats=2x2x{ROWS + 40}x1:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa_bwd q=1x1x450x{DEPTH}:{T} k=1x1x{DEPTH}x200:{T}@{200 * DEPTH},{200 * DEPTH},1,{DEPTH} \
       v=1x1x200x{DEPTH}:{T} o=1x1x450x{DEPTH}:{T} do=1x1x450x{DEPTH}:{T} stats=1x1x450x1:f32 right=0 \
       diagonal=bottom_right""",
    """sdpa_bwd q=1x1x35x{DEPTH}:{T} k=1x1x{DEPTH}x300:{T}@{300 * DEPTH},{300 * DEPTH},1,{DEPTH} \
       v=1x1x300x{DEPTH}:{T} o=1x1x35x{DEPTH}:{T} do=1x1x35x{DEPTH}:{T} stats=1x1x35x1:f32 \
       len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32"""]
@*/
// A block owns ROWS queries of a head and goes through the keys that they see. logs: what scores are less in
// powers of two; dots: the sums of do * o. left, right: keys that a query sees on either side of the
// diagonal, which ends at the last query and the last key where `from_end`, else begins at the first ones.
// o: do.
#include "bwd_wgmma_steps.cuh"

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap o,
    const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
    const __grid_constant__ CUtensorMap dq, const float* logs, const float* dots, const int* len_q,
    const int* len_kv, i64 len_q_step, i64 len_kv_step, Number<float> scale, int batches, int heads,
    int per_kv, int s_q, int s_kv, int left, int right, int from_end, int section,
    Array<int, 2> q_moves, Array<int, 2> o_moves, Array<int, 2> k_moves, Array<int, 2> v_moves) {
    using Tile = SdpaBwdTile<T, DEPTH, ROWS, STEPS>;
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
        if (threadIdx.x < 32)
            sdpa_bwd_bring<Tile, false>(shared, order, 1, {{q, 1, q_moves}, {o, 1, o_moves},
                                                           {k, per_kv, k_moves}, {v, per_kv, v_moves}});
        return;
    }
    registers_take<Tile::takes>();
    const float by = scale.load();
    SdpaBwdSums<Tile> sums = {shared, role - 1, sdpa_bwd_scale(by)};
    const int at = sums.group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int n = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        SdpaBwdSums<Tile>::Sums to = {};
        SdpaBwdNoLargest none;
        const int row = order.w.row + at;
        float log[2], dot[2];
        UNROLL for (int h = 0; h < 2; ++h) {
            const i64 place = (i64(order.w.batch) * heads + order.w.head) * s_q + row + 8 * h;
            const bool is_there = row + 8 * h < s_q;
            log[h] = is_there ? logs[place] : INFINITY, dot[h] = is_there ? dots[place] : 0;
        }
        sums.begin(tile);
        sdpa_bwd_steps_dq(sums, order.band, row, n, SdpaBwdPlain(), log, dot, none, to);
        if (order.w.row + Tile::rows > order.band.own) sums.drop(to, order.band.own - row);
        group_wait(sums.group);
        sums.put(to, by, shared.a(sums.slot), dq, order.w);
        sums.end();
    }
}
