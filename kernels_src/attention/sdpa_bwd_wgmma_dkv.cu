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
#include "bwd_wgmma.cuh"

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
        SdpaBwdSums<Tile>::Words p, ds = {};
        const int row = order.w.row + at, begin = n;
        sums.begin(tile);
        NO_UNROLL for (int h = 0; h < span; ++h)
            NO_UNROLL for (int step = order.band.first; step < order.band.end; ++step, ++n) {
                const int stage = sums.stage(n), column = threadIdx.x % 4;
                const auto* const log = reinterpret_cast<const float2*>(shared.value(stage, 0)) + column;
                const auto* const dot = reinterpret_cast<const float2*>(shared.value(stage, 1)) + column;
                sums.ask_scores(n), sums.ask_slopes(n);
                sums.ask_sums(to_k, ds, sums.x(n - (n > begin)));    // of the step before; 0 at first
                wgmma_wait<2>(), sums_change(sums.s);
                sums.hide(order.band, row, step);
                UNROLL for (int j = 0; j < Tile::steps / 8; ++j) {
                    float* const s = sums.s + 4 * j;
                    const float2 less = log[4 * j];
                    UNROLL for (int i = 0; i < 4; ++i)
                        s[i] = exp2_near(fmaf(s[i], sums.scale, i % 2 ? -less.y : -less.x));
                    UNROLL for (int h = 0; h < 2; ++h)
                        p[j / 2][j % 2 * 2 + h] = pair_of<T>(s[2 * h], s[2 * h + 1]);
                }
                SdpaBwdSums<Tile>::Words kept;                       // a product under way has p
                UNROLL for (int i = 0; i < Tile::steps / 4; ++i) kept[i / 4][i % 4] = p[i / 4][i % 4];
                sums.ask_sums(to_v, p, sums.y(n));
                wgmma_wait<1>(), sums_change(sums.d), sums_change(to_k), words_change(ds);
                if (n > begin) sums.leave(n - 1);
                UNROLL for (int i = 0; i < Tile::steps / 4; ++i) {
                    const float *const s = sums.s + 2 * i, *const d = sums.d + 2 * i;
                    const float2 less = dot[i / 2 * 4];
                    // Registers are scarce: weights as they were rounded.
                    const unsigned pair = kept[i / 4][i % 4];
                    const float2 w = Tile::depth > 64 ? sdpa_bwd_weights(pair, T()) : float2{s[0], s[1]};
                    ds[i / 4][i % 4] = pair_of<T>(w.x * (d[0] - less.x), w.y * (d[1] - less.y));
                }
                wgmma_wait<0>(to_v), words_change(p);
            }
        if (n > begin) {
            sums.ask_sums(to_k, ds, sums.x(n - 1));
            wgmma_wait<0>(to_k);
            sums.leave(n - 1);
        }
        if (order.w.row + Tile::rows > order.band.own)
            sums.drop(to_k, order.band.own - row), sums.drop(to_v, order.band.own - row);
        group_wait(sums.group);
        sums.put(to_k, by, shared.a(sums.slot), dk, order.w);
        sums.put(to_v, 1, shared.b(sums.slot), dv, order.w);
        sums.end();
    }
}
