/*@kernel
name   = "sdpa_bwd_any_dbias_{S}"
about  = """The gradient of a tensor that attention's scores read, summed in a fixed order over what it is \
            broadcast along; spliced code loads, changes scores and their gradients, and stores."""
S      = ["f32", "f64"]
params = ["const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step",
          "const S* dots", "int batches", "int heads", "int out_batches", "int out_heads", "int out_rows",
          "int out_cols", "int per_k", "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left",
          "int right", "int from_end", "Array<int64_t, 4> q_steps", "Array<int64_t, 4> k_steps",
          "Array<int64_t, 4> v_steps", "Array<int64_t, 4> do_steps", "Array<int64_t, 4> dbias_steps",
          "Array<int64_t, 3> stats_steps",
          "const int* q_at", "const int* k_at", "const int* v_at", "const int* do_at",
          "const int* stats_at", "int wide", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "S factor", "int drops", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["tiles * ceil_div(out_cols, 32) * out_heads * out_batches", 1, 1]
smem   = "64 * (d_qk + d_v) + 8192 + 32 * sizeof(S)"
extra  = ["tiles"]
needs  = ["0 <= d_qk <= 256", "0 <= d_v <= 256", "s_q >= 1", "s_kv >= 1",
          "tiles * ceil_div(out_cols, 32) * out_heads * out_batches < 2147483648"]
marks  = ["load_q", "load_k", "load_v", "load_do", "load_stats", "row", "score", "weight",
          "dscore", "store_dbias"]
problems = [
    """sdpa_bwd q=2x4x21x75:{'f16' if S == f32 else 'f64'} k=2x2x75x38:bf16@5700,2850,1,75 v=2x1x38x70:f16 \
       o=2x4x21x70:f32 do=2x4x21x70:f16 stats=2x4x21x1:f32 extras=1x4x21x38:f16 dq=2x4x21x75:f32 \
       dk=2x2x75x38:f32 dv=2x1x38x70:f32 dbias=1x4x21x38:f32 acc={S} right=3 left=9 dbias_of=0 drop=0.25 \
       score=mul(s,#0.1);add(n0,e0);tanh_fwd(n1)""",
    """sdpa_bwd 2x2x37x8 2x1x8x40 2x2x40x8 extras=2x1x1x40:f32 dbias=2x1x1x40:f32 dbias_of=0 score=add(s,e0) \
       len_kv=2x1x1x1:i32 acc={S} {'f32' if S == f32 else 'f64'}""",
    """sdpa_bwd 2x2x19x8 2x1x8x40 2x2x40x8 extras=1x2x19x1:f32 dbias=1x2x19x1:f32 dbias_of=0 \
       score=add(s,e0) len_q=2x1x1x1:i32 acc={S} {'f32' if S == f32 else 'f64'}"""]
@*/
// A block makes 64 bytes of rows by 32 columns of the result; along a dim of which that has one, all of them
// are added up: columns of a lane, then lanes, then rows and warps, in their order.
#include "attention/any_bwd.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, const S* dots, int batches,
    int heads, int out_batches, int out_heads, int out_rows, int out_cols, int per_k, int per_v, int s_q,
    int s_kv, int d_qk, int d_v, int left, int right, int from_end, Array<i64, 4> q_steps,
    Array<i64, 4> k_steps, Array<i64, 4> v_steps, Array<i64, 4> do_steps, Array<i64, 4> dbias_steps,
    Array<i64, 3> stats_steps,
    const int* q_at, const int* k_at, const int* v_at, const int* do_at, const int* stats_at, int wide,
    Number<i64> seed, Number<i64> offset, unsigned upper, unsigned lower, S factor, int drops, Fuse fuse) {
    constexpr int WARPS = 4, R = 16 / sizeof(S), ROWS = WARPS * R, KEYS = 32;
    using Rows = Vec<S, R>;                                         // one of each of the warp's rows
    extern __shared__ uint4 memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Rows* const all = reinterpret_cast<Rows*>(memory);
    Rows *const q = all + warp * d_qk, *const grad = all + WARPS * d_qk + warp * d_v;
    const Chunk<S, KEYS> tile{reinterpret_cast<S*>(all + WARPS * (d_qk + d_v))};

    const int cols = ceil_div(out_cols, KEYS), tiles = out_rows == 1 ? 1 : ceil_div(out_rows, ROWS);
    const int tile_key = blockIdx.x % cols, tile_row = blockIdx.x / cols % tiles;
    const int rest = blockIdx.x / cols / tiles, at_head = rest % out_heads, at_batch = rest / out_heads;
    const int first_row = tile_row * ROWS, end_row = out_rows == 1 ? s_q : min(s_q, first_row + ROWS);
    const int first_key = tile_key * KEYS, end_key = out_cols == 1 ? s_kv : min(s_kv, first_key + KEYS);
    const int end_batch = out_batches == 1 ? batches : at_batch + 1;
    const int end_head = out_heads == 1 ? heads : at_head + 1;

    const Dropout<S> dropout(seed, offset, upper, lower, factor, heads, s_q, s_kv, drops);
    S acc[R] = {};
    for (int batch = at_batch; batch < end_batch; ++batch)
    for (int head = at_head; head < end_head; ++head)
    for (int row0 = first_row; row0 < end_row; row0 += ROWS) {
        const Band band(len_q, len_kv, batch * len_q_step, batch * len_kv_step, s_q, s_kv, left, right,
                    from_end);
        const Batch q_in(q_at, wide & 1, batch, q_steps[0]), k_in(k_at, wide & 2, batch, k_steps[0]);
        const Batch v_in(v_at, wide & 4, batch, v_steps[0]), do_in(do_at, wide & 8, batch, do_steps[0]);
        const Batch stats_in(stats_at, wide & 16, batch, stats_steps[0]);
        const int head_k = head / per_k, head_v = head / per_v, mine = row0 + warp * R;
        S size[R], dot[R];
        __syncthreads();                                            // the rows before are read
        each<R>([&](auto r) {
            const int row = mine + r;
            const bool is_there = row < band.n_q;
            NO_UNROLL for (int d = lane; d < d_qk; d += 32) {
                S value = 0;
                if (is_there) CYDNN_LOAD(q, value, batch, head, row, d);
                q[d][r] = value;
            }
            NO_UNROLL for (int c = lane; c < d_v; c += 32) {
                S value = 0;
                if (is_there) CYDNN_LOAD(do, value, batch, head, row, c);
                grad[c][r] = value;
            }
            size[r] = 0, dot[r] = 0;
            if (!is_there) return;
            CYDNN_LOAD_STATS(size[r], batch, head, row);
            dot[r] = dots[(i64(batch) * heads + head) * s_q + row];
            fuse_row<r>(batch, head, row);
        });
        for (int key0 = first_key; key0 < end_key; key0 += KEYS) {
            S score[R] = {}, product[R] = {};
            for (int d0 = 0; d0 < d_qk; d0 += tile.SIZE) {
                tile.bring(band.n_kv - key0, d_qk - d0, [&](S& value, int i, int c) {
                    CYDNN_LOAD(k, value, batch, head_k, key0 + i, d0 + c);
                });
                for (int d = 0; d < min(tile.SIZE, d_qk - d0); ++d) {
                    const Rows one = q[d0 + d];
                    UNROLL for (int r = 0; r < R; ++r) score[r] += one[r] * tile(lane, d);
                }
            }
            for (int c0 = 0; c0 < d_v; c0 += tile.SIZE) {
                tile.bring(band.n_kv - key0, d_v - c0, [&](S& value, int i, int j) {
                    CYDNN_LOAD(v, value, batch, head_v, key0 + i, c0 + j);
                });
                for (int c = 0; c < min(tile.SIZE, d_v - c0); ++c) {
                    const Rows one = grad[c0 + c];
                    UNROLL for (int r = 0; r < R; ++r) product[r] += one[r] * tile(lane, c);
                }
            }
            each<R>([&](auto r) {
                if (!band.has(mine + r, key0 + lane)) return;
                S value = score[r];
                fuse_score<r>(value, batch, head, mine + r, key0 + lane);
                const S weight = size[r] == -S(INFINITY) ? S(0) : exp(value - size[r]);
                const S kept = dropout.template at<r>(batch, head, mine + r, key0 + lane);
                value = weight * ((kept != S(0) ? kept * product[r] : S(0)) - dot[r]);
                fuse_dscore<r>(value, batch, head, mine + r, key0 + lane);
                acc[r] += value;
            });
        }
    }

    if (out_cols == 1)
        UNROLL for (int r = 0; r < R; ++r) acc[r] = warp_sum(acc[r]);
    if (out_rows == 1) {
        S sum = 0;
        UNROLL for (int r = 0; r < R; ++r) sum += acc[r];
        __syncthreads();
        tile.tile[warp * 32 + lane] = sum;
        __syncthreads();
        acc[0] = 0;
        for (int w = 0; w < WARPS; ++w) acc[0] += tile.tile[w * 32 + lane];
    }
    each<R>([&](auto r) {
        const int row = out_rows == 1 ? warp * R + r : first_row + warp * R + r, col = first_key + lane;
        if (row >= out_rows || col >= out_cols) return;
        S value = acc[r];
        fuse_store_dbias(value, along(dbias_steps, at_batch, at_head, row, col), at_batch, at_head, row, col);
    });
}
