/*@kernel
name    = "sdpa_fwd_wgmma_{T}_{QK}_{V}_{ROWS}x{KEYS}"
about   = """Attention on Hopper's tensor cores (TMA, wgmma, f32 sums), heads of up to QK elements of \
             queries and keys, V of values; bounds, lengths, shared heads, sinks."""
T       = ["f16", "bf16"]
QK      = [64, 128, 192, 256]
V       = [64, 128, 256]
ROWS    = [128, 192]
KEYS    = [80, 96, 128]
when    = ["""(QK, V, ROWS, KEYS) == (64, 64, 128, 128) or (QK, V, ROWS, KEYS) == (64, 64, 192, 96) or \
              (QK, V, ROWS, KEYS) == (128, 128, 128, 128) or (QK, V, ROWS, KEYS) == (192, 128, 128, 128) or \
              (QK, V, ROWS, KEYS) == (256, 256, 128, 80)"""]
targets = ["sm_90a"]
params  = ["const CUtensorMap q", "const CUtensorMap k", "const CUtensorMap v", "const CUtensorMap o",
           "float* stats", "const int* len_q", "const int* len_kv", "Number<float> scale",
           "int64_t len_q_step", "int64_t len_kv_step", "int batches", "int heads", "int per_k", "int per_v",
           "int s_q", "int s_kv", "int left", "int right", "int from_end", "int section", "float empty",
           "Array<int, 2> q_moves", "Array<int, 2> k_moves", "Array<int, 2> v_moves",
           "Array<int64_t, 3> stats_steps", "unsigned* next_tile", "const float* sink", "int64_t sink_step"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "heads % per_k == 0",
           "heads % per_v == 0", "left < 268435456", "right < 268435456",
           "1 <= blocks <= ceil_div(s_q, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa q=2x4x{ROWS + 40}x{QK - 8}:{T} \
       k=2x2x{QK - 8}x300:{T}@{600 * (QK - 8)},{300 * (QK - 8)},1,{QK - 8} \
       v=2x1x300x{V - 24}:{T} len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 o=2x4x{ROWS + 40}x{V - 24}:{T} \
       stats=2x4x{ROWS + 40}x1:f32 sink=1x4x1x1:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa q=1x1x9x{QK}:{T} k=1x1x{QK}x600:{T}@{600 * QK},{600 * QK},1,{QK} v=1x1x600x{V}:{T} \
       o=1x1x9x{V}:{T}"""]
@*/
// left, right: keys that a query sees on either side of the diagonal (-1: all), which ends at the last query
// and the last key where `from_end`, else begins at the first ones. per_k, per_v: heads of q, side by side,
// that read the same k and v. The dims of the maps: depth, row or key, head, batch; moves: 0 where all heads
// or batches are one. empty: o of a query that sees no key. next_tile: 0, or null (SdpaOrder::take).
#include "fwd_wgmma_sums.cuh"
#include "lib/number.cuh"

namespace cydnn {

// A warpgroup goes through the keys of its 64 queries. The scores of a step are asked for before the product
// of the weights of the step before it with its values, and become weights while that goes on.
template <class Tile> struct SdpaRows {
    SdpaSums<Tile> sums;
    const SdpaShared<Tile>& shared;
    const SdpaOrder& order;
    const int group;                                                 // of those that multiply
    const unsigned zero;                                             // that the compiler does not know
    float scale;                                                     // to powers of two; not 0
    int k_count = 0, v_count = 0, first[2], end[2];

    DEVICE int thread() const { return threadIdx.x % 128; }
    DEVICE unsigned k() const { return shared_address(shared.k(k_count % Tile::stages)); }
    DEVICE unsigned v() const { return shared_address(shared.v(v_count % Tile::stages)); }
    DEVICE uint64_t* k_full() const { return shared.barriers->k_full + k_count % Tile::stages; }
    DEVICE uint64_t* v_full() const { return shared.barriers->v_full + v_count % Tile::stages; }
    DEVICE unsigned k_phase() const { return k_count / Tile::stages & 1; }
    DEVICE unsigned v_phase() const { return v_count / Tile::stages & 1; }
    DEVICE void k_done() {
        if (thread() == 0) barrier_arrive(shared.barriers->k_empty + k_count % Tile::stages);
        ++k_count;
    }
    DEVICE void v_done() {
        if (thread() == 0) barrier_arrive(shared.barriers->v_empty + v_count % Tile::stages);
        ++v_count;
    }

    DEVICE void see(const SdpaWork& w, int block) {
        if (block < w.whole || block >= w.whole_end) sums.hide(first, end, block * Tile::keys, scale);
    }
    // What a thread knows of its rows; columns count from its first one on.
    DEVICE void begin(const SdpaWork& w, int row) {
        UNROLL for (int h = 0; h < 2; ++h) {
            const int r = row + 8 * h, column = threadIdx.x % 4 * 2;
            first[h] = order.first_of(w, r) - column;
            end[h] = (r < w.queries ? order.end_of(w, r) : 0) - column;
        }
        sums.clear();
    }
    DEVICE SdpaWork work(int n) const {
        auto* const b = shared.barriers;
        SdpaWork w;
        barrier_wait(b->q_full + n % Tile::q_slots, n / Tile::q_slots & 1);
        UNROLL for (int i = 0; i < int(sizeof(w) / 4); ++i)          // the same in a warp, as all may know
            reinterpret_cast<int*>(&w)[i] = __shfl_sync(~0u, reinterpret_cast<int*>(b->work + n % 2)[i], 0);
        return w;
    }
    DEVICE unsigned q(int n) const {
        return shared_address(shared.q(n % Tile::q_slots)) + group * 64 * LINE;
    }
    // Scores of the first step of a tile.
    DEVICE void first_scores(const SdpaWork& w, int n) {
        if (!w.has_keys()) return;
        barrier_wait(k_full(), k_phase());
        wgmma_begin(sums.s);
        sums.ask_scores(q(n), k());
        wgmma_wait<0>(sums.s);
    }
    DEVICE void last_values(const SdpaWork& w) {
        if (!w.has_keys()) return;
        barrier_wait(v_full(), v_phase());
        sums.weights_change(sums.p);
        wgmma_begin(sums.o);
        sums.ask_values(sums.p, v());
        wgmma_wait<0>(sums.o);
        v_done();
    }
    // Both at once: the tensor cores go on while the next tile begins.
    DEVICE void last_and_first(const SdpaWork& last, const SdpaWork& first, int n) {
        if (!last.has_keys() || !first.has_keys()) {
            last_values(last), first_scores(first, n);
            return;
        }
        barrier_wait(k_full(), k_phase());
        barrier_wait(v_full(), v_phase());
        sums.weights_change(sums.p), sums_change(sums.o), wgmma_begin(sums.s);
        sums.ask_scores(q(n), k());
        wgmma_fence();
        sums.ask_values(sums.p, v());
        wgmma_wait<0>(sums.s), sums_change(sums.o), sums.weights_change(sums.p);
        v_done();
    }
    // A step whose scores become weights while those of the step before meet their values. Barriers are asked
    // early, so that the answer is there when it is needed.
    using Weights = unsigned[SdpaSums<Tile>::steps][4];
    DEVICE void step(const SdpaWork& w, unsigned q, int block, Weights& p, Weights& next, bool& is_ready) {
        if (!is_ready) barrier_wait(k_full(), k_phase());
        const bool has_values = barrier_try(v_full(), v_phase());
        if (Tile::has_turns) turn_wait(group);
        sums.weights_change(p), sums_change(sums.o), wgmma_begin(sums.s);
        sums.ask_scores(q, k());
        if (!has_values) barrier_wait(v_full(), v_phase());
        wgmma_fence();                                               // behind the branch it wants its own
        sums.ask_values(p, v());
        if (Tile::has_turns) turn_give((group + 1) % Tile::groups);
        wgmma_wait<1>(), sums_change(sums.s);
        k_done();
        see(w, block);
        const bool shrinks = sums.weigh(next, scale, false);
        wgmma_wait<0>(sums.o), sums.weights_change(p);
        v_done();
        is_ready = block > w.first && barrier_try(k_full(), k_phase());
        if (shrinks) sums.rescale();
    }
    // Not a copy: the compiler would merge it with the operand of a product under way.
    DEVICE void take(const Weights& next) {
        UNROLL for (int i = 0; i < SdpaSums<Tile>::steps; ++i)
            UNROLL for (int r = 0; r < 4; ++r) sums.p[i][r] = next[i][r] | zero;
    }
    DEVICE void steps(const SdpaWork& w, unsigned q) {
        k_done();
        see(w, w.end - 1);
        sums.weigh(sums.p, scale, true);
        bool is_ready = false;
        Weights next;
        int block = w.end - 2;
        if constexpr (Tile::has_pairs) {
            if ((block - w.first) % 2 == 0) step(w, q, block--, sums.p, next, is_ready), take(next);
            NO_UNROLL for (; block >= w.first; block -= 2) {
                step(w, q, block, sums.p, next, is_ready);
                step(w, q, block - 1, next, sums.p, is_ready);
            }
        } else {
            NO_UNROLL for (; block >= w.first; --block) step(w, q, block, sums.p, next, is_ready), take(next);
        }
    }
};

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
    const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap o, float* stats,
    const int* len_q, const int* len_kv, Number<float> scale, i64 len_q_step, i64 len_kv_step, int batches,
    int heads, int per_k, int per_v, int s_q, int s_kv, int left, int right, int from_end, int section,
    float empty, Array<int, 2> q_moves, Array<int, 2> k_moves, Array<int, 2> v_moves,
    Array<i64, 3> stats_steps, unsigned* next_tile, const float* sink, i64 sink_step) {
    using Tile = SdpaTile<T, QK, V, ROWS, KEYS>;
    extern __shared__ unsigned char memory[];
    const SdpaShared<Tile> shared(memory);
    const SdpaOrder order = {len_q, len_kv, len_q_step, len_kv_step, batches, heads, s_q, s_kv, left, right,
                             from_end, section, next_tile};
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);         // the same in a warp, as all may know
    auto* const b = shared.barriers;
    if (threadIdx.x == 0) shared.init();
    if (threadIdx.x == 32) tensor_ahead(q), tensor_ahead(k), tensor_ahead(v), tensor_ahead(o);
    __syncthreads();
    if (role == 0) {
        registers_give<Tile::gives>();
        if (threadIdx.x == 32) sdpa_bring_q(shared, order, SdpaPlace{q, 1, q_moves});
        if (threadIdx.x < 32)
            sdpa_bring_kv(shared, s_kv, SdpaPlace{k, per_k, k_moves}, SdpaPlace{v, per_v, v_moves});
        return;
    }
    registers_take<Tile::takes>();
    SdpaRows<Tile> rows = {{}, shared, order, role - 1, unsigned(heads) >> 31};
    rows.scale = scale.load() * 1.4426950408889634f;
    if (rows.scale == 0) rows.scale = FLT_MIN;                       // what is hidden stays infinite
    if (Tile::has_turns && rows.group == Tile::groups - 1) turn_give(0);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0), lane = threadIdx.x % 32;
    SdpaWork w = rows.work(0);
    if (!Tile::is_wide) rows.first_scores(w, 0);
    NO_UNROLL for (int n = 0; w.row >= 0; ++n) {
        const int slot = n % Tile::q_slots, at = rows.group * 64 + warp * 16;
        if (Tile::is_wide) rows.first_scores(w, n);
        rows.begin(w, w.row + at + lane / 4);
        if (w.has_keys()) rows.steps(w, rows.q(n));
        SdpaWork next;
        if (Tile::is_wide) rows.last_values(w), w = rows.work(n);    // again: registers are scarce
        else {
            if (lane == 0) barrier_arrive(b->q_empty + slot);
            next = rows.work(n + 1);
            rows.last_and_first(w, next, n + 1);
        }
        const int row = w.row + at + lane / 4;
        float sums[2], sinks[2];
        UNROLL for (int h = 0; h < 2; ++h)
            sinks[h] = sink && row + 8 * h < w.queries ? sink[w.head * sink_step] * 1.4426950408889634f
                                                       : -INFINITY;
        if (w.row + Tile::rows > w.queries) rows.sums.drop({row < w.queries, row + 8 < w.queries});
        rows.sums.finish(empty, sinks, sums);
        if (stats && lane % 4 == 0) UNROLL for (int h = 0; h < 2; ++h)
            if (row + 8 * h < s_q)
                stats[w.batch * stats_steps[0] + w.head * stats_steps[1] + (row + 8 * h) * stats_steps[2]] =
                    sums[h];
        // Each warp stores its own rows, behind the store before it, or where all have read their queries.
        if (Tile::is_wide) group_wait(rows.group);
        else if (lane == 0) store_wait_read<0>();
        __syncwarp();
        unsigned char* const to = shared.o(slot) + at * LINE;
        rows.sums.put(shared_address(to));
        fence_async();
        __syncwarp();
        if (lane == 0) {
            UNROLL for (int i = 0; i < Tile::depth_v / 64; ++i) {
                const int place[5] = {64 * i, w.row + at, w.head, w.batch, 0};
                tensor_store(o, place, to + i * Tile::q_panel);
            }
            store_commit();
            if (Tile::is_wide) store_wait_read<0>(), barrier_arrive(b->q_empty + slot);
        }
        if (Tile::is_wide) next = rows.work(n + 1);
        w = next;
    }
    if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
