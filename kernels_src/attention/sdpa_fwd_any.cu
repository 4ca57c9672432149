/*@kernel
name   = "sdpa_fwd_any_{S}"
about  = """Attention of any types and strides in one pass over the keys; \
            spliced code loads q, k and v, changes scores and stores."""
S      = ["f32", "f64"]
params = ["const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "int heads",
          "int group", "int per_k", "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left",
          "int right", "int from_end", "int has_sink", "S empty", "Array<int64_t, 4> q_steps",
          "Array<int64_t, 4> k_steps", "Array<int64_t, 4> v_steps", "Array<int64_t, 4> o_steps",
          "Array<int64_t, 3> stats_steps", "Array<int64_t, 3> max_steps", "Array<int64_t, 3> sum_steps",
          "const int* q_at", "const int* k_at", "const int* v_at", "const int* o_at", "const int* stats_at",
          "int wide", "const int* k_table", "const int* v_table", "Array<int64_t, 2> k_table_steps",
          "Array<int64_t, 2> v_table_steps", "Array<int, 2> k_pages", "Array<int, 2> v_pages",
          "const unsigned char* blocks", "Array<int64_t, 4> blocks_steps", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "S factor", "int drops", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["tiles * (heads // group) * batches", 1, 1]
smem   = "64 * (d_qk + d_v) + 10240 + 32 * sizeof(S)"
extra  = ["tiles", "batches"]
needs  = ["0 <= d_qk <= 256", "0 <= d_v <= 256", "heads % group == 0", "s_q >= 1", "s_kv >= 0",
          "tiles * (heads // group) * batches < 2147483648"]
marks  = ["load_q", "load_k", "load_v", "load_sink", "row", "score", "weight", "store", "stats", "score_max",
          "score_sum_exp"]
problems = [
    """sdpa q=2x6x37x24:{'f16' if S == f32 else 'f64'} k=2x2x24x70:bf16@3360,1680,1,24 v=2x3x70x40:f16 \
       extras=1x6x37x70:f16+1x6x1x1:f32 o=2x6x37x40:f32 stats=2x6x37x1:f32 drop=0.25 acc={S} right=0 \
       diagonal=bottom_right score=add(s,e0);sub(col,row);exp(e1);mul(n1,n2);add(n0,n3);mul(n4,#0.1);\
tanh_fwd(n5);mul(n6,#10.0)""",
    "sdpa 1x4x20x255 1x1x255x100 1x4x100x137 left=30 right=3 {'bf16' if S == f32 else 'f64'} acc={S}",
    """sdpa q=2x8x1x64:i8 k=2x2x64x300:f8_e4m3 v=2x2x300x64:f8_e5m2 len_kv=2x1x1x1:i32 o=2x8x1x64:f16 \
       acc={S}""",
    """sdpa q=2x4x9x8:{'f16' if S == f32 else 'f64'} k=7x2x8x16:f16 v=9x1x8x24:f16 table_k=2x1x3x1:i32 \
       table_v=2x1x5x1:i32 max_kv=37 len_kv=2x1x1x1:i32 sink=1x4x1x1:f32 stats=2x4x9x1:f32 \
       score_max=2x4x9x1:f32 score_sum_exp=2x4x9x1:f32 o=2x4x9x24:f32 acc={S}""",
    """sdpa q=2x2x150x8:{'f16' if S == f32 else 'f64'} k=2x1x8x140:f16 v=2x2x140x8:f16 \
       blocks=1x2x2x1:u8 extras=2x1x150x140:f16+1x2x1x1:f32 drop=0.25 keep=mul(e0,e1) stats=2x2x150x1:f32 \
       o=2x2x150x8:f32 acc={S}""",
    """sdpa 2x1x9x8 2x1x8x9 2x1x9x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 {'f16' if S == f32 else 'f64'} \
       acc={S}"""]
@*/
// A block makes 64 bytes of rows, a warp 16 of them. A row is a query and one of `group` heads that read the
// same k and v; heads lie side by side. left, right: keys that a query sees on either side of the diagonal
// (-1: all), which ends at the last query and the last key where `from_end`, else begins at the first ones.
// empty: o of a query that sees no key. q_at … stats_at: where batches begin, in elements (bit i of `wide`:
// the i-th of them has 64 bits). k_pages, v_pages: keys of a page, pages. blocks: a bit for each 128 queries
// by 128 keys.
#include "attention/any_marks.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, int heads, int group,
    int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right, int from_end,
    int has_sink, S empty, Array<i64, 4> q_steps, Array<i64, 4> k_steps, Array<i64, 4> v_steps,
    Array<i64, 4> o_steps, Array<i64, 3> stats_steps, Array<i64, 3> max_steps, Array<i64, 3> sum_steps,
    const int* q_at, const int* k_at, const int* v_at, const int* o_at, const int* stats_at, int wide,
    const int* k_table, const int* v_table, Array<i64, 2> k_table_steps, Array<i64, 2> v_table_steps,
    Array<int, 2> k_pages, Array<int, 2> v_pages, const unsigned char* blocks, Array<i64, 4> blocks_steps,
    Number<i64> seed, Number<i64> offset, unsigned upper, unsigned lower, S factor, int drops, Fuse fuse) {
    constexpr int WARPS = 4, R = 16 / sizeof(S), KEYS = 32, CHUNK = 256 / sizeof(S), PITCH = CHUNK + 1;
    using Rows = Vec<S, R>;                                         // one of each of the warp's rows
    extern __shared__ uint4 memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Rows* const all = reinterpret_cast<Rows*>(memory);
    Rows *const q = all + warp * d_qk, *const acc = all + WARPS * d_qk + warp * d_v;
    Rows* const prob = all + WARPS * (d_qk + d_v) + warp * KEYS;
    S* const tile = reinterpret_cast<S*>(all + WARPS * (d_qk + d_v + KEYS));     // of k or v: [key][PITCH]

    const int count = group * s_q, tiles = ceil_div(count, WARPS * R), groups = heads / group;
    const int row0 = blockIdx.x % tiles * WARPS * R, rest = blockIdx.x / tiles, batch = rest / groups;
    const int head0 = rest % groups * group, head_k = head0 / per_k, head_v = head0 / per_v;
    const int n_q = len_q ? max(0, min(len_q[batch * len_q_step], s_q)) : s_q;
    const int n_kv = len_kv ? max(0, min(len_kv[batch * len_kv_step], s_kv)) : s_kv;
    const int shift = from_end ? n_kv - n_q : 0;
    const Batch q_in(q_at, wide & 1, batch, q_steps[0]), o_in(o_at, wide & 8, batch, o_steps[0]);
    const Batch stats_in(stats_at, wide & 16, batch, stats_steps[0]);
    const Pages k_in(k_table, batch, k_table_steps, k_pages), v_in(v_table, batch, v_table_steps, v_pages);
    const Dropout<S> dropout(seed, offset, upper, lower, factor, heads, s_q, s_kv, drops);
    auto first_of = [&](int row) { return left < 0 ? 0 : max(0, row + shift - left); };
    auto end_of = [&](int row) { return right < 0 ? n_kv : min(n_kv, row + shift + right + 1); };

    int head[R], row[R], first[R], end[R];
    S top[R], total[R];
    each<R>([&](auto r) {
        const int number = min(row0 + warp * R + r, count - 1);
        head[r] = head0 + number % group, row[r] = number / group;
        first[r] = first_of(row[r]), end[r] = row[r] < n_q ? end_of(row[r]) : 0;
        top[r] = -S(INFINITY), total[r] = 0;
        NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
            S value = 0;
            const i64 off = q_in.at(q_steps, head[r], row[r], d);
            if (row[r] < n_q && q_in.has(off)) fuse_load_q(value, off, batch, head[r], row[r], d);
            q[d][r] = value;
        }
        NO_UNROLL for (int c = lane; c < d_v; c += 32) acc[c][r] = 0;               // a thread's own columns
        fuse_row<r>(batch, head[r], row[r]);
    });

    // What some row of the block sees: the band of a later row neither begins nor ends earlier.
    const int last = min(min(row0 + WARPS * R, count), n_q * group) - 1;
    const int begin = first_of(row0 / group) / KEYS * KEYS, stop = last < row0 ? 0 : end_of(last / group);
    auto bring = [&](int key0, int columns, auto load) {
        const int c = threadIdx.x % CHUNK;
        __syncthreads();
#pragma unroll 4
        for (int n = 0; n < KEYS; n += 32 * WARPS / CHUNK) {
            const int i = n + threadIdx.x / CHUNK;
            S value = 0;
            if (key0 + i < stop && c < columns) load(value, key0 + i, c);
            tile[i * PITCH + c] = value;
        }
        __syncthreads();
    };
    for (int key0 = begin; key0 < stop; key0 += KEYS) {
        S score[R] = {};
        for (int d0 = 0; d0 < d_qk; d0 += CHUNK) {
            const int depth = min(CHUNK, d_qk - d0);
            bring(key0, depth, [&](S& value, int key, int d) {
                int at = batch;
                if (!k_in.find(at, key)) return;
                const Batch in(k_at, wide & 2, at, k_steps[0]);
                const i64 off = in.at(k_steps, head_k, key, d0 + d);
                if (in.has(off)) fuse_load_k(value, off, at, head_k, key, d0 + d);
            });
            for (int d = 0; d < depth; ++d) {
                const Rows one = q[d0 + d];
                UNROLL for (int r = 0; r < R; ++r) score[r] += one[r] * tile[lane * PITCH + d];
            }
        }
        bool is_inside = true;                                      // else what a row does not see may be NaN
        int from[R], to[R];                                         // of these keys: all, or none by a block
        UNROLL for (int r = 0; r < R; ++r) {
            const bool no = hides(blocks, blocks_steps, batch, head[r], row[r], key0);
            from[r] = first[r], to[r] = no ? 0 : end[r];
            is_inside &= key0 >= from[r] && key0 + KEYS <= to[r];
        }
        Rows shrink, mine;
        each<R>([&](auto r) {
            S value = -S(INFINITY), kept = 1;
            if (key0 + lane >= from[r] && key0 + lane < to[r]) {
                value = score[r];
                fuse_score<r>(value, batch, head[r], row[r], key0 + lane);
                kept = dropout.template at<r>(batch, head[r], row[r], key0 + lane);
            }
            const S now = max_nan(top[r], warp_max(value)), base = now == -S(INFINITY) ? S(0) : now;
            const S weight = exp(value - base);
            shrink[r] = exp(top[r] - base), mine[r] = weight * kept;
            top[r] = now, total[r] = total[r] * shrink[r] + weight;
        });
        prob[lane] = mine;
        for (int c0 = 0; c0 < d_v; c0 += CHUNK) {
            const int columns = min(CHUNK, d_v - c0);
            bring(key0, columns, [&](S& value, int key, int c) {
                int at = batch;
                if (!v_in.find(at, key)) return;
                const Batch in(v_at, wide & 4, at, v_steps[0]);
                const i64 off = in.at(v_steps, head_v, key, c0 + c);
                if (in.has(off)) fuse_load_v(value, off, at, head_v, key, c0 + c);
            });
            for (int c = lane; c < columns; c += 32) {
                S sum[R] = {};
                auto add = [&](auto is_whole) {
                    for (int i = 0; i < KEYS; ++i) {
                        const Rows one = prob[i];
                        UNROLL for (int r = 0; r < R; ++r)
                            if (is_whole || key0 + i >= from[r] && key0 + i < to[r])
                                sum[r] += one[r] * tile[i * PITCH + c];
                    }
                };
                if (is_inside) add(Constant<1>{});
                else add(Constant<0>{});
                UNROLL for (int r = 0; r < R; ++r) acc[c0 + c][r] = acc[c0 + c][r] * shrink[r] + sum[r];
            }
        }
    }

    each<R>([&](auto r) {
        S sum = warp_sum(total[r]), shrink = 1;
        if (row0 + warp * R + r >= count) return;
        if (has_sink && row[r] < n_q) {                             // a key more, whose value is 0
            S sink = 0;
            fuse_load_sink(sink, 0, head[r]);
            const S now = max_nan(top[r], sink), base = now == -S(INFINITY) ? S(0) : now;
            shrink = exp(top[r] - base), sum = sum * shrink + exp(sink - base), top[r] = now;
        }
        NO_UNROLL for (int c = lane; c < d_v; c += 32) {
            S value = sum == 0 ? empty : acc[c][r] * shrink / sum;  // of a row that sees nothing
            const i64 off = o_in.at(o_steps, head[r], row[r], c);
            if (o_in.has(off)) fuse_store(value, off, batch, head[r], row[r], c);
        }
        if (lane > 0) return;
        S value = sum == 0 ? -S(INFINITY) : top[r] + log(sum);
        const i64 at = stats_in.begin + head[r] * stats_steps[1] + row[r] * stats_steps[2];
        if (stats_in.has(at)) fuse_stats(value, at, batch, head[r], row[r]);
        i64 off = batch * max_steps[0] + head[r] * max_steps[1] + row[r] * max_steps[2];
        fuse_score_max(top[r], off, batch, head[r], row[r]);
        off = batch * sum_steps[0] + head[r] * sum_steps[1] + row[r] * sum_steps[2];
        fuse_score_sum_exp(sum, off, batch, head[r], row[r]);
    });
}
