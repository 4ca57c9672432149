/*@kernel
name    = "sdpa_fwd_mma_{T}_{D}_{ROWS}"
about   = """Attention on tensor cores (mma.sync, cp.async, f32 sums), heads of up to D elements, ROWS \
             queries of heads that share keys; keys in parts, in pages; bounds, lengths, sinks, \
             dropout; spliced code changes scores."""
T       = ["f16", "bf16"]
D       = [64, 128, 256]
ROWS    = [16, 64]
when    = ["sm == 80 or ROWS == 16"]
targets = ["sm_80", "sm_90"]
params  = ["const T* q", "const T* k", "const T* v", "T* o", "float* stats", "float* part",
           "float* part_stats", "const int* len_q", "const int* len_kv", "Number<float> scale",
           "int64_t len_q_step", "int64_t len_kv_step", "int batches", "int heads", "int group", "int per_k",
           "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left", "int right", "int from_end",
           "int splits", "float empty", "Array<int64_t, 3> q_steps", "Array<int64_t, 3> k_steps",
           "Array<int64_t, 3> v_steps", "Array<int64_t, 3> o_steps", "Array<int64_t, 3> stats_steps",
           "const int* k_table", "const int* v_table", "Array<int64_t, 2> k_table_steps",
           "Array<int64_t, 2> v_table_steps", "FastDiv k_block", "FastDiv v_block", "Array<int, 2> pages",
           "const int* q_at", "const int* k_at", "const int* v_at", "const int* o_at", "const int* stats_at",
           "int wide", "const float* sink", "int64_t sink_step", "Number<int64_t> seed",
           "Number<int64_t> offset", "unsigned upper", "unsigned lower", "float factor", "int drops",
           "Fuse fuse"]
block   = ["64 if D == 256 and ROWS == 16 else 128", 1, 1]
grid    = ["ceil_div(s_q * group, ROWS) * splits * (heads // group) * batches", 1, 1]
smem    = """{(2 * (8 if D > 128 and ROWS > 16 else 16) * D * 2 * (2 if D == 256 and ROWS == 16 else 4) * \
             (2 if D > 128 else 128 // D + 1 if ROWS > 16 else 384 // D) + \
             (ROWS * D * 2 if D > 128 else 0))}"""
needs   = ["1 <= d_qk <= D", "1 <= d_v <= D", "d_qk % 8 == 0", "d_v % 8 == 0", "heads % group == 0",
           "1 <= s_q", "s_q * group <= 268435456", "0 <= s_kv <= 268435456", "0 <= left <= 536870912",
           "0 <= right <= 536870912", "1 <= splits <= 256",
           "ceil_div(s_q * group, ROWS) * splits * (heads // group) * batches < 2147483648"]
marks   = ["row", "score"]
problems = [
    """sdpa q=2x4x{ROWS // 4 + 3}x{D - 8}:{T} \
       k=2x2x{D - 8}x460:{T}@{920 * (D - 8)},{460 * (D - 8)},1,{D - 8} v=2x1x460x{D - 24}:{T} \
       o=2x4x{ROWS // 4 + 3}x{D - 24}:{T} stats=2x4x{ROWS // 4 + 3}x1:f32 right=0 diagonal=bottom_right \
       left=420""",
    """sdpa q=1x3x{5 if ROWS == 16 else 21}x{D}:{T} k=5x3x{D}x24:{T}@{72 * D},{24 * D},1,{D} \
       v=7x3x16x{D}:{T} table_k=1x1x13x1:i32 table_v=1x1x20x1:i32 max_kv=290 \
       o=1x3x{5 if ROWS == 16 else 21}x{D}:{T} extras=1x3x1x290:f32+1x1x1x290:f32 \
       score=mul(s,e0);add(n0,e1)""",
    """sdpa q=2x2x{9 if ROWS == 16 else 18}x{D}:{T} k=2x2x{D}x70:{T}@{140 * D},{70 * D},1,{D} \
       v=2x2x70x{D}:{T} len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 \
       o=2x2x{9 if ROWS == 16 else 18}x{D}:{T} left=3 sink=1x2x1x1:f32 drop=0.25"""]
@*/
// A block takes ROWS rows, a query and one of `group` heads each, heads first, and one of `splits` parts of
// the keys that they see. Of one part it stores o; else sums and their logarithms (of powers of two), which
// sdpa_fwd_join.cu adds up: part[split][row][d_v], part_stats[split][row], rows in the order of blocks.
//
// left, right: keys that a query sees on either side of the diagonal, which ends at the last query and the
// last key where `from_end`, else begins at the first ones. Steps: batch (or page), head, row or key.
// sink: of each head. factor: of what dropout keeps.
// k_block, v_block: keys of a page; pages: how many of each. empty: o of a query that sees no key. q_at …
// stats_at: where batches begin, in elements (bit i of `wide`: the i-th of them has 64 bits).
#include "any_marks.cuh"
#include "fwd_mma_sums.cuh"
#include "kept.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(D == 256 && ROWS == 16 ? 64 : 128) void KERNEL(
    const T* q, const T* k, const T* v, T* o, float* stats, float* part, float* part_stats, const int* len_q,
    const int* len_kv, Number<float> scale, i64 len_q_step, i64 len_kv_step, int batches, int heads,
    int group, int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right, int from_end,
    int splits, float empty, Array<i64, 3> q_steps, Array<i64, 3> k_steps, Array<i64, 3> v_steps,
    Array<i64, 3> o_steps, Array<i64, 3> stats_steps, const int* k_table, const int* v_table,
    Array<i64, 2> k_table_steps, Array<i64, 2> v_table_steps, FastDiv k_block, FastDiv v_block,
    Array<int, 2> pages, const int* q_at, const int* k_at, const int* v_at, const int* o_at,
    const int* stats_at, int wide, const float* sink, i64 sink_step, Number<i64> seed, Number<i64> offset,
    unsigned upper, unsigned lower, float factor, int drops, Fuse fuse) {
    using Tile = SdpaMma<T, D, ROWS>;
    extern __shared__ __align__(128) unsigned char memory[];
#if __CUDA_ARCH__ >= 900                                             // PTX ISA §griddepcontrol
    asm volatile("griddepcontrol.launch_dependents;");               // they wait for the end
#endif
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row_warp = warp % Tile::row_warps, team = warp / Tile::row_warps;

    // What the block is: the last queries first, as they see most where bounds hide keys.
    const int count = s_q * group, tiles = ceil_div(count, ROWS), groups = heads / group;
    const int tile = tiles - 1 - blockIdx.x % tiles, split = blockIdx.x / tiles % splits;
    const int unit = blockIdx.x / tiles / splits, batch = unit / groups, head0 = unit % groups * group;
    const int row0 = tile * ROWS, rows = min(ROWS, count - row0);
    SdpaSeen seen;
    seen.n_q = len_q ? max(0, min(len_q[batch * len_q_step], s_q)) : s_q;
    seen.n_kv = len_kv ? max(0, min(len_kv[batch * len_kv_step], s_kv)) : s_kv;
    seen.shift = from_end ? seen.n_kv - seen.n_q : 0, seen.left = left, seen.right = right;
    seen.set(row0 / group, (row0 + rows - 1) / group, Tile::block_keys);
    const int all = max(0, ceil_div(seen.stop - seen.begin, Tile::block_keys));
    const int each = all / splits, more = all % splits, from = split * each + min(split, more);
    const int steps = each + (split < more);
    const i64 first_row = i64(unit) * count + row0, row_count = i64(batches) * heads * s_q;
    if (steps == 0 && splits > 1 && !(sink && split == 0)) {         // sinks are of the first part
        if (threadIdx.x < rows) part_stats[split * row_count + first_row + threadIdx.x] = -INFINITY;
        return;
    }

    const unsigned ring = shared_address(memory) + team * Tile::stages * Tile::stage_bytes;
    const int first_key = seen.begin + (from * Tile::teams + team) * Tile::keys;
    const Batch k_in(k_at, wide & 2, batch, k_table ? 0 : k_steps[0]);
    const Batch v_in(v_at, wide & 4, batch, v_table ? 0 : v_steps[0]);
    const SdpaSide<T> k_side = {
        k, k_table ? k_table + batch * k_table_steps[0] : nullptr, k_in.begin + head0 / per_k * k_steps[1],
        k_in.end, k_table_steps[1], k_steps[0], k_steps[2], k_block, pages[0], d_qk};
    const SdpaSide<T> v_side = {
        v, v_table ? v_table + batch * v_table_steps[0] : nullptr, v_in.begin + head0 / per_v * v_steps[1],
        v_in.end, v_table_steps[1], v_steps[0], v_steps[2], v_block, pages[1], d_v};
    SdpaBring<Tile> bring(k_side, v_side, first_key + row_warp * Tile::share, seen.stop,
                          ring + row_warp * Tile::share * Tile::line);
    NO_UNROLL for (int i = 0; i < Tile::stages - 1; ++i) {
        if (i < steps) bring.load(i);
        cp_async_commit();
    }

    const Batch q_in(q_at, wide & 1, batch, q_steps[0]);
    int first[2], end[2], head[2], query[2];
    i64 from_q[2];
    UNROLL for (int h = 0; h < 2; ++h) {
        const int number = min(row0 + row_warp * 16 + lane / 4 + 8 * h, count - 1);
        query[h] = number / group, head[h] = head0 + number % group;
        first[h] = seen.first_of(query[h]), end[h] = seen.end_of(query[h]);
        from_q[h] = q_in.begin + head[h] * q_steps[1] + query[h] * q_steps[2];
    }
    fuse_row<0>(batch, head[0], query[0]), fuse_row<1>(batch, head[1], query[1]);
    SdpaQueries<Tile> queries(memory, row_warp);
    if (q_at) queries.bring_ragged(q, q_in, from_q, d_qk, team);
    else queries.bring(q, from_q, d_qk, team);
    queries.hold();

    const float power = scale.load() * 1.4426950408889634f;
    const SdpaKept kept(seed, offset, {upper, lower}, heads, s_q, s_kv, drops);
    SdpaMmaSums<Tile> sums;
    sums.clear();
    int slot = 0, key0 = first_key;
    NO_UNROLL for (int step = 0; step < steps; ++step, key0 += Tile::block_keys) {
        cp_async_wait<Tile::stages - 2>();
        if (Tile::row_warps == 1) __syncwarp();
        else __syncthreads();
        if (step + Tile::stages - 1 < steps) bring.load(slot == 0 ? Tile::stages - 1 : slot - 1);
        cp_async_commit();
        const unsigned stage = ring + slot * Tile::stage_bytes;
        sums.make_scores(queries, stage);
        UNROLL for (int j = 0; j < Tile::keys / 8; ++j) UNROLL for (int i = 0; i < 4; ++i) {
            const int column = min(key0 + j * 8 + lane % 4 * 2 + i % 2, s_kv - 1);
            if (i < 2) fuse_score<0>(sums.s[j][i], batch, head[0], query[0], column);
            else fuse_score<1>(sums.s[j][i], batch, head[1], query[1], column);
            sums.s[j][i] *= power;
        }
        if (key0 < seen.whole || key0 + Tile::keys > seen.whole_end)
            sums.hide(first, end, key0 + lane % 4 * 2);
        sums.weigh();
        if (drops) sums.drop(kept_of_keys<Tile::keys>(kept, batch, head, query, key0));
        sums.add_values(stage + Tile::k_bytes);
        slot = slot == Tile::stages - 1 ? 0 : slot + 1;
    }

    cp_async_wait<0>();
    __syncthreads();
    sums.put(memory, team * ROWS + row_warp * 16);
    __syncthreads();
    SdpaOut<T> out = {o, stats, Batch(o_at, wide & 8, batch, o_steps[0]),
                      Batch(stats_at, wide & 16, batch, stats_steps[0]), o_steps, stats_steps};
    const int chunks = d_v / 4;
    NO_UNROLL for (int i = threadIdx.x; i < rows * chunks; i += blockDim.x) {
        const int r = i / chunks, c = i % chunks * 4, number = row0 + r;
        const int at_head = head0 + number % group;
        const bool has_sink = sink && split == 0 && number / group < seen.n_q;
        const float base = has_sink ? sink[at_head * sink_step] * 1.4426950408889634f : -INFINITY;
        float found[4];
        const float size = sums_of_teams<Tile>(memory, r, c, splits > 1 ? 0 : empty, base, found);
        UNROLL for (int n = 0; n < 4; ++n) found[n] *= factor;
        if (splits > 1) {
            const i64 at = split * row_count + first_row + r;
            Vec<float, 4>::of(found).store(part + at * d_v + c);
            if (c == 0) part_stats[at] = size;
        } else out.put(at_head, number / group, c, found, size);
    }
}
