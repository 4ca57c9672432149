/*@kernel
name    = "sdpa_bwd_mma_dq_{T}_{D}"
about   = """The gradient of attention's queries on tensor cores (mma.sync, cp.async, f32 sums), heads of up \
             to D elements, and what its keys and values need of each query; bounds, lengths, dropout; \
             spliced code changes scores, weights and their gradients."""
T       = ["f16", "bf16"]
D       = [64, 128, 256]
targets = ["sm_80"]
params  = ["const T* q", "const T* k", "const T* v", "const T* o", "const T* d_o", "T* dq",
           "const float* stats", "float* logs", "float* dots", "const int* len_q", "const int* len_kv",
           "int64_t len_q_step", "int64_t len_kv_step", "Number<float> scale", "int batches", "int heads",
           "int per_k", "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left", "int right",
           "int from_end", "Array<int64_t, 3> q_steps", "Array<int64_t, 3> k_steps",
           "Array<int64_t, 3> v_steps", "Array<int64_t, 3> o_steps", "Array<int64_t, 3> do_steps",
           "Array<int64_t, 3> dq_steps", "Array<int64_t, 3> stats_steps", "const int* q_at",
           "const int* k_at", "const int* v_at", "const int* o_at", "const int* do_at", "const int* dq_at",
           "const int* stats_at", "int wide", "Number<int64_t> seed", "Number<int64_t> offset",
           "unsigned upper", "unsigned lower", "float factor", "int drops", "Fuse fuse"]
block   = [128, 1, 1]
grid    = ["ceil_div(s_q, 64) * heads * batches", 1, 1]
smem    = "{2 * 64 * D * 2 + 2 * 2 * 64 * 64 * 2}"
needs   = ["1 <= d_qk <= D", "1 <= d_v <= D", "d_qk % 8 == 0", "d_v % 8 == 0", "s_q >= 1", "s_kv >= 1",
           "ceil_div(s_q, 64) * heads * batches < 2147483648"]
marks   = ["row", "score", "weight", "dscore"]
problems = [
    """sdpa_bwd q=2x2x70x{D - 8}:{T} k=2x1x{D - 8}x150:{T}@{150 * (D - 8)},{150 * (D - 8)},1,{D - 8} \
       v=2x1x150x{D - 24}:{T} o=2x2x70x{D - 24}:{T} do=2x2x70x{D - 24}:{T} stats=2x2x70x1:f32 \
       extras=1x2x70x150:{T}+1x2x70x1:f32 drop=0.25 keep=mul(e1,#0.5) right=0 diagonal=bottom_right left=100 \
       score=mul(s,#0.1);add(n0,e0);tanh_fwd(n1);add(n2,e1)""",
    """sdpa_bwd q=2x2x90x{D}:{T} k=2x2x{D}x70:{T}@{140 * D},{70 * D},1,{D} v=2x1x70x{D}:{T} o=2x2x90x{D}:{T} \
       do=2x2x90x{D}:{T} stats=2x2x90x1:f32 len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 drop=0.5"""]
@*/
// A block owns 64 queries of a head. logs: what scores are less in powers of two, infinite where nothing is
// seen; dots: of each query the sum of do * o. Steps: batch, head, row. per_k, per_v: heads of q that share.
// q_at … stats_at: where batches begin, in elements (bit i of `wide`: the i-th of them has 64 bits).
#include "bwd_mma.cuh"

namespace cydnn {

// The sum of do * o of the row lane / 2 of a warp's rows.
template <class Tile> DEVICE float dot_of(const unsigned char* x, const unsigned char* y) {
    using Line = Vec<typename Tile::Type, 8>;
    const int row = threadIdx.x % 32 / 2;
    float sum = 0;
    UNROLL for (int c = 0; c < Tile::depth / 8; c += 2) {
        const unsigned at = swizzled(row, c + threadIdx.x % 2, Tile::line);
        const Line a = Line::load(reinterpret_cast<const typename Tile::Type*>(x + at));
        const Line b = Line::load(reinterpret_cast<const typename Tile::Type*>(y + at));
        UNROLL for (int n = 0; n < 8; ++n) sum = fmaf(to_acc<float>(a[n]), to_acc<float>(b[n]), sum);
    }
    return sum + __shfl_xor_sync(~0u, sum, 1);
}

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* q, const T* k, const T* v, const T* o, const T* d_o, T* dq, const float* stats, float* logs,
    float* dots, const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, Number<float> scale,
    int batches, int heads, int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right,
    int from_end, Array<i64, 3> q_steps, Array<i64, 3> k_steps, Array<i64, 3> v_steps, Array<i64, 3> o_steps,
    Array<i64, 3> do_steps, Array<i64, 3> dq_steps, Array<i64, 3> stats_steps, const int* q_at,
    const int* k_at, const int* v_at, const int* o_at, const int* do_at, const int* dq_at,
    const int* stats_at, int wide, Number<i64> seed, Number<i64> offset, unsigned upper, unsigned lower,
    float factor, int drops, Fuse fuse) {
    using Tile = SdpaBwdMma<T, D>;
    extern __shared__ __align__(128) unsigned char memory[];
    const int tiles = ceil_div(s_q, Tile::own), tile = tiles - 1 - blockIdx.x % tiles;     // longest first
    const int head = blockIdx.x / tiles % heads, batch = blockIdx.x / tiles / heads, row0 = tile * Tile::own;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = row0 + warp * 16;
    const Band band(len_q, len_kv, batch * len_q_step, batch * len_kv_step, s_q, s_kv, left, right,
                    from_end);
    const auto k_side = side_of(k, k_at, wide >> 1 & 1, batch, k_steps, head / per_k, d_qk);
    const auto v_side = side_of(v, v_at, wide >> 2 & 1, batch, v_steps, head / per_v, d_v);
    const unsigned a = shared_address(memory), b = a + Tile::own_bytes, ring = b + Tile::own_bytes;

    // Own rows, and o where the stages will be, for the sums.
    const auto q_side = side_of(q, q_at, wide & 1, batch, q_steps, head, d_qk);
    const auto do_side = side_of(d_o, do_at, wide >> 4 & 1, batch, do_steps, head, d_v);
    bring<Tile, Tile::own>(q_side, row0, band.n_q, a);
    bring<Tile, Tile::own>(do_side, row0, band.n_q, b);
    bring<Tile, Tile::own>(side_of(o, o_at, wide >> 3 & 1, batch, o_steps, head, d_v), row0, band.n_q, ring);
    cp_async_commit(), cp_async_wait<0>();
    __syncthreads();
    unsigned char* const own = memory + warp * 16 * Tile::line;
    const float sum = dot_of<Tile>(own + Tile::own_bytes, own + 2 * Tile::own_bytes);
    const Batch stats_in(stats_at, wide >> 6 & 1, batch, stats_steps[0]);
    float log[2], dot[2];
    const int own_rows[2] = {mine + lane / 4, mine + lane / 4 + 8};
    int query[2], first[2], end[2];
    UNROLL for (int h = 0; h < 2; ++h) {
        const int row = mine + lane / 4 + 8 * h;
        const i64 at = stats_in.begin + head * stats_steps[1] + row * stats_steps[2];
        const float size = row < band.n_q && stats_in.has(at) ? stats[at] : -INFINITY;
        log[h] = size == -INFINITY ? INFINITY : size * 1.4426950408889634f;
        dot[h] = __shfl_sync(~0u, sum, lane / 4 * 2 + 16 * h);
        query[h] = min(row, s_q - 1);
        first[h] = band.first(row), end[h] = row < band.n_q ? band.end(row) : 0;
        if (lane % 4 == 0 && row < s_q) {
            const i64 to = (i64(batch) * heads + head) * s_q + row;
            logs[to] = log[h], dots[to] = dot[h];
        }
    }
    fuse_row<0>(batch, head, query[0]), fuse_row<1>(batch, head, query[1]);
    __syncthreads();                                                 // before the stages are filled

    const int last = min(row0 + Tile::own, band.n_q) - 1;
    const int begin = band.first(row0) / Tile::steps * Tile::steps, stop = last < row0 ? 0 : band.end(last);
    const auto load = [&](int key0, int stage) {
        const unsigned x = ring + stage * 2 * Tile::step_bytes;
        bring<Tile, Tile::steps>(k_side, key0, band.n_kv, x);
        bring<Tile, Tile::steps>(v_side, key0, band.n_kv, x + Tile::step_bytes);
    };
    const SdpaKept kept(seed, offset, {upper, lower}, heads, s_q, s_kv, drops);
    const float by = scale.load(), power = by * 1.4426950408889634f;
    typename Tile::Sums sums = {};
    if (begin < stop) load(begin, 0);
    cp_async_commit();
    int stage = 0;
    NO_UNROLL for (int key0 = begin; key0 < stop; key0 += Tile::steps, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();
        if (key0 + Tile::steps < stop) load(key0 + Tile::steps, stage ^ 1);
        cp_async_commit();
        const unsigned x = ring + stage * 2 * Tile::step_bytes;
        typename Tile::Square s, d;
        typename Tile::Words ds;
        multiply<Tile>(s, a + warp * 16 * Tile::line, x);
        multiply<Tile>(d, b + warp * 16 * Tile::line, x + Tile::step_bytes);
        unsigned mask = 0;
        if (drops) mask = kept_of_keys<Tile::steps>(kept, batch, {head, head}, own_rows, key0);
        UNROLL for (int j = 0; j < Tile::steps / 8; ++j) each<4>([&](auto i) {
            constexpr int h = i / 2;
            const int key = key0 + j * 8 + lane % 4 * 2 + i % 2;
            SdpaBwdElement found;
            found.make<h>(s[j][i], d[j][i], log[h], dot[h], power,
                          drops ? mask >> 4 * j + i & 1 ? factor : 0 : 1, key >= first[h] && key < end[h],
                          batch, head, query[h], min(key, s_kv - 1));
            s[j][i] = found.gradient;
        });
        pack<T>(ds, s);
        add<Tile>(sums, ds, x);
    }
    const auto dq_side = side_of(dq, dq_at, wide >> 5 & 1, batch, dq_steps, head, d_qk);
    put<Tile>(sums, by, own, dq_side, mine, band.n_q, s_q);
}
