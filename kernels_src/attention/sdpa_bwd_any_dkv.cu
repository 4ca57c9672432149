/*@kernel
name   = "sdpa_bwd_any_dkv_{S}"
about  = """The gradients of attention's keys and values, of any types and strides, summed over queries and \
            heads in their order; spliced code loads, changes scores and their gradients, and stores."""
S      = ["f32", "f64"]
params = ["const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step",
          "const S* dots", "int heads", "int span", "int per_k", "int per_v", "int with_k", "int with_v",
          "int s_q", "int s_kv", "int d_qk", "int d_v", "int left", "int right", "int from_end",
          "Array<int64_t, 4> q_steps", "Array<int64_t, 4> k_steps", "Array<int64_t, 4> v_steps",
          "Array<int64_t, 4> do_steps", "Array<int64_t, 4> dk_steps", "Array<int64_t, 4> dv_steps",
          "Array<int64_t, 3> stats_steps",
          "const int* q_at", "const int* k_at", "const int* v_at", "const int* do_at", "const int* dk_at",
          "const int* dv_at", "const int* stats_at", "int wide", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "S factor", "int drops", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["tiles * (heads // span) * batches", 1, 1]
smem   = "64 * (d_qk * (1 + with_k) + d_v * (1 + with_v)) + 12288 + 32 * sizeof(S)"
extra  = ["tiles", "batches"]
needs  = ["0 <= d_qk <= 256", "0 <= d_v <= 256", "heads % span == 0", "s_q >= 0", "s_kv >= 1",
          "tiles * (heads // span) * batches < 2147483648"]
marks  = ["load_q", "load_k", "load_v", "load_do", "load_stats", "row", "score", "weight", "dscore",
          "store_dk", "store_dv"]
problems = [
    """sdpa_bwd q=2x6x41x24:{'f16' if S == f32 else 'f64'} k=2x2x24x38:bf16@1824,912,1,24 v=2x3x38x40:f16 \
       o=2x6x41x40:f32 do=2x6x41x40:f16 stats=2x6x41x1:f32 \
       extras=1x6x41x38:f16+1x6x1x1:f32+1x1x41x38:f32 drop=0.25 keep=mul(e2,#0.5) dq=2x6x41x24:f32 \
       dk=2x2x24x38:f32 dv=2x3x38x40:f32 acc={S} right=0 diagonal=bottom_right \
       score=mul(s,#0.1);add(n0,e0);sub(col,row);exp(e1);mul(n2,n3);add(n1,n4);mul(n5,#0.1);tanh_fwd(n6);\
mul(n7,#10.0)""",
    """sdpa_bwd 1x2x40x203 1x1x203x33 1x1x33x137 left=30 right=3 score=mul(s,#0.05) acc={S} \
       {'f32' if S == f32 else 'f64'}""",
    """sdpa_bwd 2x1x9x8 2x1x8x35 2x1x35x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 acc={S} \
       {'f32' if S == f32 else 'f64'}"""]
@*/
// A block makes 64 bytes of keys, a warp 16 of them, for one head of k (with_k) or of v (with_v), which
// `span` heads of q read; heads of k and of v that are shared alike are made at once. A lane has a query.
#include "attention/any_bwd.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, const S* dots, int heads, int span,
    int per_k, int per_v, int with_k, int with_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right,
    int from_end, Array<i64, 4> q_steps, Array<i64, 4> k_steps, Array<i64, 4> v_steps, Array<i64, 4> do_steps,
    Array<i64, 4> dk_steps, Array<i64, 4> dv_steps, Array<i64, 3> stats_steps,
    const int* q_at, const int* k_at, const int* v_at, const int* do_at, const int* dk_at, const int* dv_at,
    const int* stats_at, int wide, Number<i64> seed, Number<i64> offset, unsigned upper,
    unsigned lower, S factor, int drops, Fuse fuse) {
    constexpr int WARPS = 4, R = 16 / sizeof(S), QUERIES = 32;
    using Keys = Vec<S, R>;                                         // one of each of the warp's keys
    extern __shared__ uint4 memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Keys* const all = reinterpret_cast<Keys*>(memory);
    Keys *const k = all + warp * d_qk, *const v = all + WARPS * d_qk + warp * d_v;
    Keys* next = all + WARPS * (d_qk + d_v);
    Keys* const acc_k = next + warp * d_qk;
    next += with_k ? WARPS * d_qk : 0;
    Keys* const acc_v = next + warp * d_v;
    next += with_v ? WARPS * d_v : 0;
    Keys *const weights = next + warp * QUERIES, *const back = next + (WARPS + warp) * QUERIES;
    const Chunk<S, QUERIES> tile{reinterpret_cast<S*>(next + 2 * WARPS * QUERIES)};

    const int tiles = ceil_div(s_kv, WARPS * R), spans = heads / span;
    const int key0 = blockIdx.x % tiles * WARPS * R, rest = blockIdx.x / tiles, batch = rest / spans;
    const int head0 = rest % spans * span, mine = key0 + warp * R;
    const Band band(len_q, len_kv, batch * len_q_step, batch * len_kv_step, s_q, s_kv, left, right,
                    from_end);
    const Batch q_in(q_at, wide & 1, batch, q_steps[0]), k_in(k_at, wide & 2, batch, k_steps[0]);
    const Batch v_in(v_at, wide & 4, batch, v_steps[0]), do_in(do_at, wide & 8, batch, do_steps[0]);
    const Batch dk_in(dk_at, wide & 16, batch, dk_steps[0]), dv_in(dv_at, wide & 32, batch, dv_steps[0]);
    const Batch stats_in(stats_at, wide & 64, batch, stats_steps[0]);
    const Dropout<S> dropout(seed, offset, upper, lower, factor, heads, s_q, s_kv, drops);
    const int last = min(key0 + WARPS * R, band.n_kv) - 1;
    const int begin = band.first_row(key0), stop = last < key0 ? 0 : band.end_row(last);
    for (int head = head0; head < head0 + span; ++head) {
        const int head_k = head / per_k, head_v = head / per_v;
        each<R>([&](auto r) {
            const bool is_there = mine + r < band.n_kv;
            if (head == head0 || head % per_k == 0) NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
                S value = 0;
                if (is_there) CYDNN_LOAD(k, value, batch, head_k, mine + r, d);
                k[d][r] = value;
                if (with_k && head == head0) acc_k[d][r] = 0;       // a thread's own columns
            }
            if (head == head0 || head % per_v == 0) NO_UNROLL for (int c = lane; c < d_v; c += 32) {
                S value = 0;
                if (is_there) CYDNN_LOAD(v, value, batch, head_v, mine + r, c);
                v[c][r] = value;
                if (with_v && head == head0) acc_v[c][r] = 0;
            }
        });
        for (int row0 = begin; row0 < stop; row0 += QUERIES) {
            const int row = row0 + lane, many = stop - row0;
            auto bring_q = [&](int d0) {
                tile.bring(many, d_qk - d0, [&](S& value, int i, int c) {
                    CYDNN_LOAD(q, value, batch, head, row0 + i, d0 + c);
                });
            };
            auto bring_do = [&](int c0) {
                tile.bring(many, d_v - c0, [&](S& value, int i, int j) {
                    CYDNN_LOAD(do, value, batch, head, row0 + i, c0 + j);
                });
            };
            S size = 0, dot = 0, score[R] = {}, product[R] = {};
            if (lane < many) {
                CYDNN_LOAD_STATS(size, batch, head, row);
                dot = dots[(i64(batch) * heads + head) * s_q + row];
                fuse_row<0>(batch, head, row);
            }
            for (int d0 = 0; d0 < d_qk; d0 += tile.SIZE) {
                bring_q(d0);
                for (int d = 0; d < min(tile.SIZE, d_qk - d0); ++d) {
                    const Keys one = k[d0 + d];
                    UNROLL for (int r = 0; r < R; ++r) score[r] += one[r] * tile(lane, d);
                }
            }
            for (int c0 = 0; c0 < d_v; c0 += tile.SIZE) {
                bring_do(c0);
                for (int c = 0; c < min(tile.SIZE, d_v - c0); ++c) {
                    const Keys one = v[c0 + c];
                    UNROLL for (int r = 0; r < R; ++r) product[r] += one[r] * tile(lane, c);
                }
            }
            Keys weight, gradient;
            each<R>([&](auto r) {
                S value = 0;
                weight[r] = 0;
                if (lane < many && band.has(row, mine + r)) {
                    value = score[r];
                    fuse_score<0>(value, batch, head, row, mine + r);
                    weight[r] = size == -S(INFINITY) ? S(0) : exp(value - size);
                    const S kept = dropout.template at<0>(batch, head, row, mine + r);
                    value = weight[r] * ((kept != S(0) ? kept * product[r] : S(0)) - dot);
                    weight[r] *= kept;
                    fuse_dscore<0>(value, batch, head, row, mine + r);
                }
                gradient[r] = value;
            });
            weights[lane] = weight, back[lane] = gradient;
            auto add = [&](Keys* acc, const Keys* factors, int columns) {
                for (int c = lane; c < min(tile.SIZE, columns); c += 32) {
                    S sum[R] = {};
                    for (int i = 0; i < QUERIES; ++i) {
                        const Keys one = factors[i];
                        // what is not seen reaches nothing, be it no number
                        UNROLL for (int r = 0; r < R; ++r)
                            sum[r] += one[r] != S(0) ? one[r] * tile(i, c) : S(0);
                    }
                    UNROLL for (int r = 0; r < R; ++r) acc[c][r] += sum[r];
                }
            };
            for (int c0 = 0; c0 < d_v && with_v; c0 += tile.SIZE)
                bring_do(c0), add(acc_v + c0, weights, d_v - c0);
            for (int d0 = 0; d0 < d_qk && with_k; d0 += tile.SIZE)
                bring_q(d0), add(acc_k + d0, back, d_qk - d0);
        }
    }

    const int head_k = head0 / per_k, head_v = head0 / per_v;
    each<R>([&](auto r) {
        if (mine + r >= s_kv) return;
        if (with_k) NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
            S value = acc_k[d][r];
            CYDNN_STORE(dk, value, batch, head_k, mine + r, d);
        }
        if (with_v) NO_UNROLL for (int c = lane; c < d_v; c += 32) {
            S value = acc_v[c][r];
            CYDNN_STORE(dv, value, batch, head_v, mine + r, c);
        }
    });
}
