/*@kernel
name   = "sdpa_fwd_any_{S}"
about  = """Attention of any types and strides in one pass over the keys; \
            spliced code loads q, k and v, changes scores and stores."""
S      = ["f32", "f64"]
params = ["const int* len_q", "const int* len_kv", "int64_t len_q_step", "int64_t len_kv_step", "int heads",
          "int group", "int per_k", "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left",
          "int right", "int from_end", "S empty", "Array<int64_t, 4> q_steps",
          "Array<int64_t, 4> k_steps", "Array<int64_t, 4> v_steps", "Array<int64_t, 4> o_steps",
          "Array<int64_t, 3> stats_steps", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["tiles * (heads // group) * batches", 1, 1]
smem   = "64 * (d_qk + d_v) + 10240 + 32 * sizeof(S)"
extra  = ["tiles", "batches"]
needs  = ["0 <= d_qk <= 256", "0 <= d_v <= 256", "heads % group == 0", "s_q >= 1", "s_kv >= 0",
          "tiles * (heads // group) * batches < 2147483648"]
marks  = ["load_q", "load_k", "load_v", "row", "score", "store", "stats"]
problems = [
    """sdpa q=2x6x37x24:{'f16' if S == f32 else 'f64'} k=2x2x24x70:bf16@3360,1680,1,24 v=2x3x70x40:f16 \
       extras=1x6x37x70:f16+1x6x1x1:f32 o=2x6x37x40:f32 stats=2x6x37x1:f32 acc={S} right=0 \
       diagonal=bottom_right score=add(s,e0);sub(col,row);exp(e1);mul(n1,n2);add(n0,n3);mul(n4,#0.1);\
tanh_fwd(n5);mul(n6,#10.0)""",
    "sdpa 1x4x20x256 1x1x256x100 1x4x100x136 left=30 right=3 {'bf16' if S == f32 else 'f64'} acc={S}",
    """sdpa q=2x8x1x64:i8 k=2x2x64x300:f8_e4m3 v=2x2x300x64:f8_e5m2 len_kv=2x1x1x1:i32 o=2x8x1x64:f16 \
       acc={S}""",
    """sdpa 2x1x9x8 2x1x8x9 2x1x9x8 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 {'f16' if S == f32 else 'f64'} \
       acc={S}"""]
@*/
// A block makes 64 bytes of rows, a warp 16 of them. A row is a query and one of `group` heads that read the
// same k and v; heads lie side by side. left, right: keys that a query sees on either side of the diagonal
// (-1: all), which ends at the last query and the last key where `from_end`, else begins at the first ones.
// empty: o of a query that sees no key.
#include "attention/any_marks.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, int heads, int group,
    int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right, int from_end, S empty,
    Array<i64, 4> q_steps, Array<i64, 4> k_steps, Array<i64, 4> v_steps, Array<i64, 4> o_steps,
    Array<i64, 3> stats_steps, Fuse fuse) {
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
            fuse_load_q(value, along(q_steps, batch, head[r], row[r], d), batch, head[r], row[r], d);
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
                fuse_load_k(value, along(k_steps, batch, head_k, key, d0 + d), batch, head_k, key, d0 + d);
            });
            for (int d = 0; d < depth; ++d) {
                const Rows one = q[d0 + d];
                UNROLL for (int r = 0; r < R; ++r) score[r] += one[r] * tile[lane * PITCH + d];
            }
        }
        bool is_inside = true;                                      // else what a row does not see may be NaN
        UNROLL for (int r = 0; r < R; ++r) is_inside &= key0 >= first[r] && key0 + KEYS <= end[r];
        Rows shrink, mine;
        each<R>([&](auto r) {
            S value = -S(INFINITY);
            if (key0 + lane >= first[r] && key0 + lane < end[r]) {
                value = score[r];
                fuse_score<r>(value, batch, head[r], row[r], key0 + lane);
            }
            const S now = max_nan(top[r], warp_max(value)), base = now == -S(INFINITY) ? S(0) : now;
            shrink[r] = exp(top[r] - base), mine[r] = exp(value - base);
            top[r] = now, total[r] = total[r] * shrink[r] + mine[r];
        });
        prob[lane] = mine;
        for (int c0 = 0; c0 < d_v; c0 += CHUNK) {
            const int columns = min(CHUNK, d_v - c0);
            bring(key0, columns, [&](S& value, int key, int c) {
                fuse_load_v(value, along(v_steps, batch, head_v, key, c0 + c), batch, head_v, key, c0 + c);
            });
            for (int c = lane; c < columns; c += 32) {
                S sum[R] = {};
                auto add = [&](auto is_whole) {
                    for (int i = 0; i < KEYS; ++i) {
                        const Rows one = prob[i];
                        UNROLL for (int r = 0; r < R; ++r)
                            if (is_whole || key0 + i >= first[r] && key0 + i < end[r])
                                sum[r] += one[r] * tile[i * PITCH + c];
                    }
                };
                if (is_inside) add(Number<1>{});
                else add(Number<0>{});
                UNROLL for (int r = 0; r < R; ++r) acc[c0 + c][r] = acc[c0 + c][r] * shrink[r] + sum[r];
            }
        }
    }

    each<R>([&](auto r) {
        const S sum = warp_sum(total[r]);
        if (row0 + warp * R + r >= count) return;
        NO_UNROLL for (int c = lane; c < d_v; c += 32) {
            S value = sum == 0 ? empty : acc[c][r] / sum;           // of a row that sees nothing
            fuse_store(value, along(o_steps, batch, head[r], row[r], c), batch, head[r], row[r], c);
        }
        S value = sum == 0 ? -S(INFINITY) : top[r] + log(sum);
        const i64 off = batch * stats_steps[0] + head[r] * stats_steps[1] + row[r] * stats_steps[2];
        if (lane == 0) fuse_stats(value, off, batch, head[r], row[r]);
    });
}
