/*@kernel
name    = "sdpa_fwd_fp8_wgmma_{T}_{O}_{ROWS}x128"
about   = """Attention of 8 bits on Hopper's tensor cores (TMA, wgmma), heads of up to 128 elements; bounds, \
             lengths, shared heads, factors of what is read and written, the largest |o|."""
T       = ["f8_e4m3", "f8_e5m2"]
O       = ["f8_e4m3", "f8_e5m2", "f16", "bf16"]
ROWS    = [128, 192]
targets = ["sm_90a"]
params  = ["const CUtensorMap q", "const CUtensorMap k", "const CUtensorMap v", "O* o", "float* stats",
           "float* score_max", "float* score_sum_exp", "float* amax", "const int* len_q", "const int* len_kv",
           "Number<float> scale", "Number<float> of_q", "Number<float> of_k", "Number<float> of_v",
           "Number<float> of_weights", "Number<float> of_sums", "Number<float> of_o", "int64_t len_q_step",
           "int64_t len_kv_step", "int batches", "int heads", "int per_k", "int per_v", "int s_q", "int s_kv",
           "int d_v", "int left", "int right", "int from_end", "int section", "float empty",
           "Array<int, 2> q_moves", "Array<int, 2> k_moves", "Array<int, 2> v_moves",
           "Array<int64_t, 3> o_steps", "Array<int64_t, 3> stats_steps", "Array<int64_t, 3> max_steps",
           "Array<int64_t, 3> sum_steps", "unsigned* next_tile"]
block   = ["128 + 2 * ROWS", 1, 1]
grid    = ["blocks", 1, 1]
smem    = "232448"
extra   = ["blocks"]
needs   = ["1 <= s_q <= 268435456", "1 <= s_kv <= 268435456", "section >= 1", "heads % per_k == 0",
           "heads % per_v == 0", "left < 268435456", "right < 268435456", "1 <= d_v <= 128", "d_v % 4 == 0",
           "1 <= blocks <= ceil_div(s_q, ROWS) * batches * heads < 1073741824"]
problems = [
    """sdpa q=2x2x{ROWS + 40}x112:{T} k=2x1x112x300:{T}@33600,33600,1,112 v=2x1x300x96:{T} \
       len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 extras=1x1x1x1:f32+1x1x1x1:f32 score=mul(s,e0);mul(e1,n0) \
       o=2x2x{ROWS + 40}x96:{O} stats=2x2x{ROWS + 40}x1:f32 score_max=2x2x{ROWS + 40}x1:f32 \
       score_sum_exp=2x2x{ROWS + 40}x1:f32 right=0 diagonal=bottom_right left=150""",
    """sdpa q=1x1x9x128:{T} k=1x1x128x600:{T}@76800,76800,1,128 v=1x1x600x128:{T} o=1x1x9x128:{O} \
       extras=1x1x1x1:f32 score=mul(s,e0)""",
    "sdpa q=1x2x9x32:{T} k=1x1x32x20:{T}@640,640,1,32 v=1x1x20x16:{T} o=1x2x9x16:{O}"]
@*/
// left, right: keys that a query sees on either side of the diagonal (-1: all), which ends at the last query
// and the last key where `from_end`, else begins at the first ones. per_k, per_v: heads of q, side by side,
// that read the same k and v. The dims of the maps: depth, row or key, head, batch; moves: 0 where all heads
// or batches are one. empty: o of a query that sees no key. Scores are of_q * of_k * scale * (q @ k); o is
// of_v * of_weights * of_sums of what the values give, of which `amax` is the largest, times of_o. amax and
// next_tile: 0 before, or null.
#include "fwd_fp8_wgmma_rows.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(128 + 2 * ROWS, 1) void KERNEL(
    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
    const __grid_constant__ CUtensorMap v, O* o, float* stats, float* score_max, float* score_sum_exp,
    float* amax, const int* len_q, const int* len_kv, Number<float> scale, Number<float> of_q,
    Number<float> of_k, Number<float> of_v, Number<float> of_weights, Number<float> of_sums,
    Number<float> of_o, i64 len_q_step, i64 len_kv_step, int batches, int heads, int per_k, int per_v,
    int s_q, int s_kv, int d_v, int left, int right, int from_end, int section, float empty,
    Array<int, 2> q_moves, Array<int, 2> k_moves, Array<int, 2> v_moves, Array<i64, 3> o_steps,
    Array<i64, 3> stats_steps, Array<i64, 3> max_steps, Array<i64, 3> sum_steps, unsigned* next_tile) {
    using Tile = SdpaTile8<T, ROWS>;
    extern __shared__ unsigned char memory[];
    const SdpaShared8<Tile> shared(memory);
    const SdpaOrder order = {len_q, len_kv, len_q_step, len_kv_step, batches, heads, s_q, s_kv, left, right,
                             from_end, section, next_tile};
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);         // the same in a warp, as all may know
    const int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) shared.init();
    if (threadIdx.x == 32) tensor_ahead(q), tensor_ahead(k), tensor_ahead(v);
    __syncthreads();
    if (role == 0) {
        registers_give<Tile::gives>();
        if (warp == 0) sdpa_bring_kv8(shared, SdpaPlace{k, per_k, k_moves}, SdpaPlace{v, per_v, v_moves});
        else if (warp > 1) sdpa_turn_values(shared);
        else if (lane == 0)
            sdpa_bring_q<Tile>(shared, order, SdpaPlace{q, 1, q_moves});
        return;
    }
    registers_take<Tile::takes>();
    SdpaRows8<Tile> rows = {{}, shared, order, role - 1};
    rows.set_scale(scale.load() * of_q.load() * of_k.load());
    const float factor = of_v.load() * of_weights.load() * of_sums.load(), last = of_o.load();
    unsigned most = 0;
    if (rows.group == Tile::groups - 1) turn_give(0);
    SdpaWork w = rows.work(0);
    NO_UNROLL for (int n = 0; w.row >= 0; ++n) {
        const int row = w.row + rows.group * 64 + warp * 16 + lane / 4, slot = n % Tile::q_slots;
        rows.begin(w, row);
        rows.steps(w, shared_address(shared.q(slot)) + rows.group * 64 * LINE);
        if (lane == 0) barrier_arrive(shared.barriers->q_empty + slot);
        if (w.row + Tile::rows > w.queries) rows.sums.drop({row < w.queries, row + 8 < w.queries});
        rows.sums.finish(empty, factor);
        UNROLL for (int h = 0; h < 2; ++h) {
            const int r = row + 8 * h;
            if (r >= s_q) continue;
            most = max(most, rows.sums.largest(h));
            rows.sums.put(o + w.batch * o_steps[0] + w.head * o_steps[1] + r * o_steps[2], h, last, d_v);
            if (lane % 4) continue;
            const float top = rows.sums.top[h], total = rows.sums.total[h];
            auto at = [&](const Array<i64, 3>& steps) {
                return w.batch * steps[0] + w.head * steps[1] + r * steps[2];
            };
            if (stats) stats[at(stats_steps)] = (top + __log2f(total)) * 0.6931471805599453f;
            if (score_max) score_max[at(max_steps)] = top * 0.6931471805599453f;
            if (score_sum_exp) score_sum_exp[at(sum_steps)] = total;
        }
        w = rows.work(n + 1);
    }
    if (!amax) return;
    most = __reduce_max_sync(~0u, most);
    if (lane == 0) atomicMax(reinterpret_cast<unsigned*>(amax), most);
}
