/*@kernel
name   = "sdpa_bwd_any_dq_{S}"
about  = """The gradient of attention's queries, of any types and strides, and the sums of do * o; \
            spliced code loads, changes scores and their gradients, and stores."""
S      = ["f32", "f64"]
params = ["const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "S* dots",
          "int heads", "int group", "int per_k", "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v",
          "int left", "int right", "int from_end", "Array<int64_t, 4> q_steps", "Array<int64_t, 4> k_steps",
          "Array<int64_t, 4> v_steps", "Array<int64_t, 4> o_steps", "Array<int64_t, 4> do_steps",
          "Array<int64_t, 4> dq_steps", "Array<int64_t, 3> stats_steps",
          "Array<int64_t, 3> peak_steps",
          "const int* q_at", "const int* k_at", "const int* v_at", "const int* o_at", "const int* do_at",
          "const int* dq_at", "const int* stats_at", "int wide", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "S factor", "int drops", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["tiles * (heads // group) * batches", 1, 1]
smem   = "64 * (2 * d_qk + d_v) + 10240 + 32 * sizeof(S)"
extra  = ["tiles", "batches"]
needs  = ["0 <= d_qk <= 256", "0 <= d_v <= 256", "heads % group == 0", "s_q >= 1", "s_kv >= 0",
          "tiles * (heads // group) * batches < 2147483648"]
marks  = ["load_q", "load_k", "load_v", "load_o", "load_do", "load_stats", "row", "score", "weight", "dscore",
          "store_dq", "store_peak"]
problems = [
    """sdpa_bwd q=2x6x21x24:{'f16' if S == f32 else 'f64'} k=2x2x24x38:bf16@1824,912,1,24 v=2x3x38x40:f16 \
       o=2x6x21x40:f32 do=2x6x21x40:f16 stats=2x6x21x1:f32 \
       extras=1x6x21x38:f16+1x6x1x1:f32+1x1x21x38:f32 drop=0.25 keep=mul(e2,#0.5) dq=2x6x21x24:f32 \
       dk=2x2x24x38:f32 dv=2x3x38x40:f32 dbias=1x6x21x38:f32 \
       peak=2x6x21x1:f32 acc={S} right=0 diagonal=bottom_right \
       dbias_of=0 \
       score=mul(s,#0.1);add(n0,e0);sub(col,row);exp(e1);mul(n2,n3);add(n1,n4);mul(n5,#0.1);tanh_fwd(n6);\
mul(n7,#10.0)""",
    """sdpa_bwd 1x2x18x255 1x1x255x50 1x2x50x137 left=30 right=3 score=mul(s,#0.05) acc={S} \
       {'f32' if S == f32 else 'f64'}""",
    """sdpa_bwd 2x1x9x8 2x1x8x35 2x1x35x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 acc={S} \
       {'f32' if S == f32 else 'f64'}"""]
@*/
// Rows and blocks are those of sdpa_fwd_any.cu. dots: of each query the sum of do * o, for the kernels that
// follow.
#include "attention/any_bwd.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, S* dots, int heads, int group,
    int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right, int from_end,
    Array<i64, 4> q_steps, Array<i64, 4> k_steps, Array<i64, 4> v_steps, Array<i64, 4> o_steps,
    Array<i64, 4> do_steps, Array<i64, 4> dq_steps, Array<i64, 3> stats_steps, Array<i64, 3> peak_steps,
    const int* q_at, const int* k_at, const int* v_at, const int* o_at, const int* do_at, const int* dq_at,
    const int* stats_at, int wide, Number<i64> seed, Number<i64> offset, unsigned upper,
    unsigned lower, S factor, int drops, Fuse fuse) {
    constexpr int WARPS = 4, R = 16 / sizeof(S), KEYS = 32;
    using Rows = Vec<S, R>;                                         // one of each of the warp's rows
    extern __shared__ uint4 memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Rows* const all = reinterpret_cast<Rows*>(memory);
    Rows *const q = all + warp * d_qk, *const acc = all + (WARPS + warp) * d_qk;
    Rows* const grad = all + 2 * WARPS * d_qk + warp * d_v;                     // do
    Rows* const back = all + WARPS * (2 * d_qk + d_v) + warp * KEYS;            // gradients of the scores
    const Chunk<S, KEYS> tile{reinterpret_cast<S*>(all + WARPS * (2 * d_qk + d_v + KEYS))};

    const int count = group * s_q, tiles = ceil_div(count, WARPS * R), groups = heads / group;
    const int row0 = blockIdx.x % tiles * WARPS * R, rest = blockIdx.x / tiles, batch = rest / groups;
    const int head0 = rest % groups * group, head_k = head0 / per_k, head_v = head0 / per_v;
    const Band band(len_q, len_kv, batch * len_q_step, batch * len_kv_step, s_q, s_kv, left, right,
                    from_end);
    const Batch q_in(q_at, wide & 1, batch, q_steps[0]), k_in(k_at, wide & 2, batch, k_steps[0]);
    const Batch v_in(v_at, wide & 4, batch, v_steps[0]), o_in(o_at, wide & 8, batch, o_steps[0]);
    const Batch do_in(do_at, wide & 16, batch, do_steps[0]), dq_in(dq_at, wide & 32, batch, dq_steps[0]);
    const Batch stats_in(stats_at, wide & 64, batch, stats_steps[0]);

    const Dropout<S> dropout(seed, offset, upper, lower, factor, heads, s_q, s_kv, drops);
    int head[R], row[R];
    S size[R], dot[R], peak[R] = {};
    each<R>([&](auto r) {
        const int number = min(row0 + warp * R + r, count - 1);
        head[r] = head0 + number % group, row[r] = number / group;
        const bool is_there = row[r] < band.n_q;
        NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
            S value = 0;
            if (is_there) CYDNN_LOAD(q, value, batch, head[r], row[r], d);
            q[d][r] = value, acc[d][r] = 0;                         // a thread's own columns
        }
        S sum = 0;
        NO_UNROLL for (int c = lane; c < d_v; c += 32) {
            S value = 0, other = 0;
            if (is_there) {
                CYDNN_LOAD(do, value, batch, head[r], row[r], c);
                CYDNN_LOAD(o, other, batch, head[r], row[r], c);
            }
            grad[c][r] = value, sum += value * other;
        }
        size[r] = 0, dot[r] = warp_sum(sum);
        if (is_there) CYDNN_LOAD_STATS(size[r], batch, head[r], row[r]);
        if (lane == 0 && row0 + warp * R + r < count)
            dots[(i64(batch) * heads + head[r]) * s_q + row[r]] = dot[r];
        fuse_row<r>(batch, head[r], row[r]);
    });

    // What some row of the block sees: the band of a later row neither begins nor ends earlier.
    const int last = min(min(row0 + WARPS * R, count), band.n_q * group) - 1;
    const int begin = band.first(row0 / group) / KEYS * KEYS, stop = last < row0 ? 0 : band.end(last / group);
    for (int key0 = begin; key0 < stop; key0 += KEYS) {
        S score[R] = {}, product[R] = {};
        auto bring_k = [&](int d0) {
            tile.bring(stop - key0, d_qk - d0, [&](S& value, int i, int c) {
                CYDNN_LOAD(k, value, batch, head_k, key0 + i, d0 + c);
            });
        };
        for (int d0 = 0; d0 < d_qk; d0 += tile.SIZE) {
            bring_k(d0);
            for (int d = 0; d < min(tile.SIZE, d_qk - d0); ++d) {
                const Rows one = q[d0 + d];
                UNROLL for (int r = 0; r < R; ++r) score[r] += one[r] * tile(lane, d);
            }
        }
        for (int c0 = 0; c0 < d_v; c0 += tile.SIZE) {
            tile.bring(stop - key0, d_v - c0, [&](S& value, int i, int c) {
                CYDNN_LOAD(v, value, batch, head_v, key0 + i, c0 + c);
            });
            for (int c = 0; c < min(tile.SIZE, d_v - c0); ++c) {
                const Rows one = grad[c0 + c];
                UNROLL for (int r = 0; r < R; ++r) product[r] += one[r] * tile(lane, c);
            }
        }
        Rows mine;
        each<R>([&](auto r) {
            S value = 0;
            if (band.has(row[r], key0 + lane)) {
                value = score[r];
                fuse_score<r>(value, batch, head[r], row[r], key0 + lane);
                const S weight = size[r] == -S(INFINITY) ? S(0) : exp(value - size[r]);
                const S kept = dropout.template at<r>(batch, head[r], row[r], key0 + lane);
                value = weight * ((kept != S(0) ? kept * product[r] : S(0)) - dot[r]);
                fuse_dscore<r>(value, batch, head[r], row[r], key0 + lane);
                peak[r] = max_nan(peak[r], value < S(0) ? -value : value);
            }
            mine[r] = value;
        });
        back[lane] = mine;
        for (int d0 = 0; d0 < d_qk; d0 += tile.SIZE) {
            bring_k(d0);
            for (int d = lane; d < min(tile.SIZE, d_qk - d0); d += 32) {
                S sum[R] = {};
                for (int i = 0; i < KEYS; ++i) {
                    const Rows one = back[i];
                    // what is not seen reaches nothing, be it no number
                    UNROLL for (int r = 0; r < R; ++r) sum[r] += one[r] != S(0) ? one[r] * tile(i, d) : S(0);
                }
                UNROLL for (int r = 0; r < R; ++r) acc[d0 + d][r] += sum[r];
            }
        }
    }

    each<R>([&](auto r) {
        S most = warp_max(peak[r]);
        if (row0 + warp * R + r >= count) return;
        const i64 off = batch * peak_steps[0] + head[r] * peak_steps[1] + row[r] * peak_steps[2];
        if (lane == 0) fuse_store_peak(most, off, batch, head[r], row[r]);
        NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
            S value = acc[d][r];
            CYDNN_STORE(dq, value, batch, head[r], row[r], d);
        }
    });
}
