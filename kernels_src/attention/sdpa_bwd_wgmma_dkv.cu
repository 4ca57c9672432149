/*@kernel
name    = "sdpa_bwd_wgmma_dkv_{T}_{DEPTH}_{ROWS}x{STEPS}"
about   = """The gradients of attention's keys and values on Hopper's tensor cores (TMA, wgmma, f32 sums), \
             heads of up to DEPTH elements; bounds, lengths; heads that share keys are summed in order."""
T       = ["f16", "bf16"]
DEPTH   = [64, 128]
ROWS    = [128]
STEPS   = [64, 96]
when    = ["(DEPTH, STEPS) == (64, 96) or (DEPTH, STEPS) == (128, 64)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap k", "const CUtensorMap v", "const CUtensorMap q", "const CUtensorMap o",
           "const CUtensorMap dk", "const CUtensorMap dv", "const float* logs", "const float* dots",
           "const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step",
           "Number<float> scale", "int batches", "int heads", "int span", "int s_q", "int s_kv", "int left",
           "int right", "int from_end", "int section", "Array<int, 2> k_moves", "Array<int, 2> v_moves",
           "Array<int, 2> q_moves", "Array<int, 2> o_moves"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "span >= 1",
           "0 <= left <= 536870912", "0 <= right <= 536870912",
           "1 <= blocks <= ceil_div(s_kv, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa_bwd q=2x2x{ROWS + 40}x{DEPTH - 8}:{T} \
       k=2x1x{DEPTH - 8}x200:{T}@{200 * (DEPTH - 8)},{200 * (DEPTH - 8)},1,{DEPTH - 8} \
       v=2x1x200x{DEPTH - 24}:{T} o=2x2x{ROWS + 40}x{DEPTH - 24}:{T} do=2x2x{ROWS + 40}x{DEPTH - 24}:{T} \
       stats=2x2x{ROWS + 40}x1:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa_bwd q=1x1x200x{DEPTH}:{T} k=1x1x{DEPTH}x400:{T}@{400 * DEPTH},{400 * DEPTH},1,{DEPTH} \
       v=1x1x400x{DEPTH}:{T} o=1x1x200x{DEPTH}:{T} do=1x1x200x{DEPTH}:{T} stats=1x1x200x1:f32 right=0""",
    """sdpa_bwd q=1x1x300x{DEPTH}:{T} k=1x1x{DEPTH}x35:{T}@{35 * DEPTH},{35 * DEPTH},1,{DEPTH} \
       v=1x1x35x{DEPTH}:{T} o=1x1x300x{DEPTH}:{T} do=1x1x300x{DEPTH}:{T} stats=1x1x300x1:f32 \
       len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32"""]
@*/
// A block owns ROWS keys of a head, which `span` heads of q read, and goes through the queries that see them.
// heads: of k and v. logs: what scores are less in powers of two; dots: the sums of do * o. left, right:
// queries that see a key on either side of the diagonal, which ends at the last query and the last key where
// `from_end`, else begins at the first ones. o: do.
#include "bwd_wgmma_steps.cuh"

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap o,
    const __grid_constant__ CUtensorMap dk, const __grid_constant__ CUtensorMap dv, const float* logs,
    const float* dots, const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step,
    Number<float> scale, int batches, int heads, int span, int s_q, int s_kv, int left, int right,
    int from_end, int section, Array<int, 2> k_moves, Array<int, 2> v_moves, Array<int, 2> q_moves,
    Array<int, 2> o_moves) {
    using Tile = SdpaBwdTile<T, DEPTH, ROWS, STEPS>;
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
        if (threadIdx.x < 32)
            sdpa_bwd_bring<Tile, true>(shared, order, span, {{k, 1, k_moves}, {v, 1, v_moves},
                                                             {q, 1, q_moves}, {o, 1, o_moves}, logs, dots});
        return;
    }
    registers_take<Tile::takes>();
    const float by = scale.load();
    SdpaBwdSums<Tile> sums = {shared, role - 1, sdpa_bwd_scale(by)};
    const int at = sums.group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int n = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        SdpaBwdSums<Tile>::Sums to_k = {}, to_v = {};
        const int row = order.w.row + at;
        sums.begin(tile);
        sdpa_bwd_steps_dkv(sums, order.band, span, row, n, SdpaBwdPlain(), to_k, to_v);
        if (order.w.row + Tile::rows > order.band.own)
            sums.drop(to_k, order.band.own - row), sums.drop(to_v, order.band.own - row);
        group_wait(sums.group);
        sums.put(to_k, by, shared.a(sums.slot), dk, order.w);
        sums.put(to_v, 1, shared.b(sums.slot), dv, order.w);
        sums.end();
    }
}
