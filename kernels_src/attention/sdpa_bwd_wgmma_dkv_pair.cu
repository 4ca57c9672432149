/*@kernel
name    = "sdpa_bwd_wgmma_dkv_pair_{T}_{DEPTH}_{ROWS}x{STEPS}"
about   = """The gradients of attention's keys and values on Hopper's tensor cores (TMA, wgmma, f32 sums), \
             heads of up to DEPTH elements, a warpgroup for each of the two; bounds, lengths; heads that \
             share keys are summed in order."""
T       = ["f16", "bf16"]
DEPTH   = [256]
ROWS    = [64]
STEPS   = [48]
targets = ["sm_90a"]
params  = ["const CUtensorMap k", "const CUtensorMap v", "const CUtensorMap q", "const CUtensorMap o",
           "const CUtensorMap dk", "const CUtensorMap dv", "const float* logs", "const float* dots",
           "const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step",
           "Number<float> scale", "int batches", "int heads", "int span", "int s_q", "int s_kv", "int left",
           "int right", "int from_end", "int section", "Array<int, 2> k_moves", "Array<int, 2> v_moves",
           "Array<int, 2> q_moves", "Array<int, 2> o_moves"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "span >= 1",
           "0 <= left <= 536870912", "0 <= right <= 536870912",
           "1 <= blocks <= ceil_div(s_kv, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa_bwd q=2x2x104x{DEPTH - 8}:{T} \
       k=2x1x{DEPTH - 8}x100:{T}@{100 * (DEPTH - 8)},{100 * (DEPTH - 8)},1,{DEPTH - 8} \
       v=2x1x100x{DEPTH - 24}:{T} o=2x2x104x{DEPTH - 24}:{T} do=2x2x104x{DEPTH - 24}:{T} \
       stats=2x2x104x1:f32 right=0 diagonal=bottom_right left=80""",
    """sdpa_bwd q=1x1x200x{DEPTH}:{T} k=1x1x{DEPTH}x100:{T}@{100 * DEPTH},{100 * DEPTH},1,{DEPTH} \
       v=1x1x100x{DEPTH}:{T} o=1x1x200x{DEPTH}:{T} do=1x1x200x{DEPTH}:{T} stats=1x1x200x1:f32 right=0""",
    """sdpa_bwd q=1x1x300x{DEPTH}:{T} k=1x1x{DEPTH}x35:{T}@{35 * DEPTH},{35 * DEPTH},1,{DEPTH} \
       v=1x1x35x{DEPTH}:{T} o=1x1x300x{DEPTH}:{T} do=1x1x300x{DEPTH}:{T} stats=1x1x300x1:f32 \
       len_q=1x1x1x1:i32 len_kv=1x1x1x1:i32"""]
@*/
// A block owns ROWS keys of a head, as sdpa_bwd_wgmma_dkv.cu, but registers have room for the sums of one
// gradient: the first warpgroup makes the scores, weights and dv, and lends the weights to the second one,
// which makes their gradients and dk. Thread t lends to thread t, as both hold the same places of a tile.
#include "bwd_wgmma.cuh"

namespace cydnn {

template <class Tile> struct SdpaBwdPair {
    using Type = typename Tile::Type;
    using Words = typename SdpaBwdSums<Tile>::Words;
    const SdpaBwdShared<Tile>& shared;

    DEVICE void done(uint64_t* b) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(b);
    }
    DEVICE void lend(int n, const Words& p) const {
        barrier_wait(shared.barriers->taken + n % 2, n / 2 & 1 ^ 1);
        uint4* const to = shared.words(n);
        UNROLL for (int i = 0; i < Tile::steps / 16; ++i) to[i * 128] = {p[i][0], p[i][1], p[i][2], p[i][3]};
        done(shared.barriers->lent + n % 2);
    }
    // ds of the weights of step n, and the gradients of these.
    DEVICE void take(int n, const float (&d)[Tile::steps / 2], Words& ds) const {
        const auto* const dot =
            reinterpret_cast<const float2*>(shared.value(n % Tile::stages, 1)) + threadIdx.x % 4;
        barrier_wait(shared.barriers->lent + n % 2, n / 2 & 1);
        const uint4* const from = shared.words(n);
        UNROLL for (int i = 0; i < Tile::steps / 16; ++i) {
            const uint4 four = from[i * 128];
            const unsigned p[4] = {four.x, four.y, four.z, four.w};
            UNROLL for (int j = 0; j < 4; ++j) {
                const float2 w = sdpa_bwd_weights(p[j], Type()), less = dot[i * 8 + j / 2 * 4];
                const float* const found = d + 8 * i + 2 * j;
                ds[i][j] = pair_of<Type>(w.x * (found[0] - less.x), w.y * (found[1] - less.y));
            }
        }
        done(shared.barriers->taken + n % 2);
    }
};

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
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
    const bool weighs = role == 1;
    const float by = weighs ? 1.f : scale.load();
    const SdpaBwdPair<Tile> pair = {shared};
    SdpaBwdSums<Tile> sums = {shared, 0, sdpa_bwd_scale(scale.load())};
    const int at = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    int n = 0;
    NO_UNROLL for (int tile = 0; order.at(tile); ++tile) {
        SdpaBwdSums<Tile>::Sums to = {};
        SdpaBwdSums<Tile>::Words words = {};                         // weights, or gradients of scores
        const int row = order.w.row + at, begin = n;
        sums.begin(tile);
        NO_UNROLL for (int h = 0; h < span; ++h)
            NO_UNROLL for (int step = order.band.first; step < order.band.end; ++step, ++n) {
                const int last = n - (n > begin);                    // whose sum is asked for; 0 at first
                sums.wait(n);
                if (weighs) {
                    const auto* const log =
                        reinterpret_cast<const float2*>(shared.value(sums.stage(n), 0)) + threadIdx.x % 4;
                    sums.ask_scores(n);
                    sums.ask_sums(to, words, sums.y(last));
                    wgmma_wait<1>(), sums_change(sums.s);
                    sums.hide(order.band, row, step);
                    UNROLL for (int i = 0; i < Tile::steps / 2; ++i) {
                        const float2 less = log[i / 4 * 4];
                        sums.s[i] = exp2_near(fmaf(sums.s[i], sums.scale, i % 2 ? -less.y : -less.x));
                    }
                    wgmma_wait<0>(to), words_change(words);
                    if (n > begin) sums.leave(n - 1);
                    UNROLL for (int i = 0; i < Tile::steps / 4; ++i)
                        words[i / 4][i % 4] = pair_of<T>(sums.s[2 * i], sums.s[2 * i + 1]);
                    pair.lend(n, words);
                } else {
                    sums.ask_slopes(n);
                    sums.ask_sums(to, words, sums.x(last));
                    wgmma_wait<0>(to), sums_change(sums.d), words_change(words);
                    if (n > begin) sums.leave(n - 1);
                    pair.take(n, sums.d, words);
                }
            }
        if (n > begin) {
            sums.ask_sums(to, words, weighs ? sums.y(n - 1) : sums.x(n - 1));
            wgmma_wait<0>(to);
            sums.leave(n - 1);
        }
        if (order.w.row + Tile::rows > order.band.own) sums.drop(to, order.band.own - row);
        group_wait(role - 1);
        // By way of own rows that no other warpgroup reads.
        sums.put(to, by, weighs ? shared.a(sums.slot) : shared.b(sums.slot), weighs ? dv : dk, order.w);
        sums.end();
    }
}
