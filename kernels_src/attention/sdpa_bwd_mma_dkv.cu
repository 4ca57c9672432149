/*@kernel
name    = "sdpa_bwd_mma_dkv_{T}_{D}_{DK}{DV}"
about   = """The gradients of attention's keys and values, or one of them, on tensor cores (mma.sync, \
             cp.async, f32 sums), heads of up to D elements; bounds, lengths, dropout; heads that share keys \
             are summed in order; spliced code changes scores, weights and their gradients."""
T       = ["f16", "bf16"]
D       = [64, 128, 256]
DK      = [0, 1]
DV      = [0, 1]
when    = ["DK + DV == 2 and D < 256 or DK + DV == 1 and D > 64"]
targets = ["sm_80"]
params  = ["const T* q", "const T* k", "const T* v", "const T* d_o", "T* dk", "T* dv", "const float* logs",
           "const float* dots", "const int* len_q", "const int* len_kv", "int64_t len_q_step",
           "int64_t len_kv_step", "Number<float> scale", "int batches", "int heads", "int span", "int per_k",
           "int per_v", "int s_q", "int s_kv", "int d_qk", "int d_v", "int left", "int right",
           "int from_end", "Array<int64_t, 3> q_steps", "Array<int64_t, 3> k_steps",
           "Array<int64_t, 3> v_steps", "Array<int64_t, 3> do_steps", "Array<int64_t, 3> dk_steps",
           "Array<int64_t, 3> dv_steps", "const int* q_at", "const int* k_at", "const int* v_at",
           "const int* do_at", "const int* dk_at", "const int* dv_at", "int wide", "Number<int64_t> seed",
           "Number<int64_t> offset", "unsigned upper", "unsigned lower", "float factor", "int drops",
           "Fuse fuse"]
block   = [128, 1, 1]
grid    = ["ceil_div(s_kv, 64) * (heads // span) * batches", 1, 1]
smem    = "{2 * 64 * D * 2 + 2 * 2 * 64 * 64 * 2}"
needs   = ["1 <= d_qk <= D", "1 <= d_v <= D", "d_qk % 8 == 0", "d_v % 8 == 0", "s_q >= 1", "s_kv >= 1",
           "heads % span == 0", "ceil_div(s_kv, 64) * (heads // span) * batches < 2147483648"]
marks   = ["row", "score", "weight", "dscore"]
problems = [
    """sdpa_bwd q=2x2x150x{D - 8}:{T} k=2x1x{D - 8}x70:{T}@{70 * (D - 8)},{70 * (D - 8)},1,{D - 8} \
       v=2x1x70x{D - 24}:{T} o=2x2x150x{D - 24}:{T} do=2x2x150x{D - 24}:{T} stats=2x2x150x1:f32 \
       extras=1x2x150x70:{T}+1x2x150x1:f32 drop=0.25 keep=mul(e1,#0.5) right=0 diagonal=bottom_right \
       left=100 \
       score=mul(s,#0.1);add(n0,e0);tanh_fwd(n1);add(n2,e1)""",
    """sdpa_bwd q=2x2x90x{D}:{T} k=2x2x{D}x70:{T}@{140 * D},{70 * D},1,{D} \
       v=2x{2 if D == 64 else 1}x70x{D}:{T} o=2x2x90x{D}:{T} do=2x2x90x{D}:{T} stats=2x2x90x1:f32 \
       len_q=2x1x1x1:i32 len_kv=2x1x1x1:i32 drop=0.5"""]
@*/
// A block owns 64 keys of a head, which `span` heads of q read, and goes through the queries that see them.
// logs, dots: of sdpa_bwd_mma_dq.cu. DK, DV: what is made; where other heads share keys than values, one.
// Steps: batch, head, row. q_at … dv_at: where batches begin, in elements (bits of `wide`: 64-bit ones).
#include "bwd_mma.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* q, const T* k, const T* v, const T* d_o, T* dk, T* dv, const float* logs, const float* dots,
    const int* len_q, const int* len_kv, i64 len_q_step, i64 len_kv_step, Number<float> scale, int batches,
    int heads, int span, int per_k, int per_v, int s_q, int s_kv, int d_qk, int d_v, int left, int right,
    int from_end, Array<i64, 3> q_steps, Array<i64, 3> k_steps, Array<i64, 3> v_steps,
    Array<i64, 3> do_steps, Array<i64, 3> dk_steps, Array<i64, 3> dv_steps, const int* q_at, const int* k_at,
    const int* v_at, const int* do_at, const int* dk_at, const int* dv_at, int wide, Number<i64> seed,
    Number<i64> offset, unsigned upper, unsigned lower, float factor, int drops, Fuse fuse) {
    using Tile = SdpaBwdMma<T, D>;
    extern __shared__ __align__(128) unsigned char memory[];
    const int tiles = ceil_div(s_kv, Tile::own), key0 = blockIdx.x % tiles * Tile::own, units = heads / span;
    const int unit = blockIdx.x / tiles % units, batch = blockIdx.x / tiles / units, head0 = unit * span;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = key0 + warp * 16;
    const Band band(len_q, len_kv, batch * len_q_step, batch * len_kv_step, s_q, s_kv, left, right,
                    from_end);
    const unsigned a = shared_address(memory), b = a + Tile::own_bytes, ring = b + Tile::own_bytes;

    const int last = min(key0 + Tile::own, band.n_kv) - 1;
    const int begin = band.first_row(key0) / Tile::steps * Tile::steps;
    const int stop = last < key0 ? 0 : band.end_row(last);
    const int count = max(0, ceil_div(stop - begin, Tile::steps));
    const auto load = [&](int n, int stage) {                        // of all heads' steps the n-th
        const int head = head0 + n / count, row0 = begin + n % count * Tile::steps;
        const unsigned x = ring + stage * 2 * Tile::step_bytes;
        const auto q_side = side_of(q, q_at, wide & 1, batch, q_steps, head, d_qk);
        const auto do_side = side_of(d_o, do_at, wide >> 3 & 1, batch, do_steps, head, d_v);
        bring<Tile, Tile::steps>(q_side, row0, band.n_q, x);
        bring<Tile, Tile::steps>(do_side, row0, band.n_q, x + Tile::step_bytes);
    };
    const SdpaKept kept(seed, offset, {upper, lower}, heads, s_q, s_kv, drops);
    const float by = scale.load(), power = by * 1.4426950408889634f;
    int first[2], end[2];
    UNROLL for (int h = 0; h < 2; ++h) {
        const int key = mine + lane / 4 + 8 * h;
        first[h] = band.first_row(key), end[h] = key < band.n_kv ? band.end_row(key) : 0;
    }
    typename Tile::Sums to_k = {}, to_v = {};
    if (count > 0) load(0, 0);
    cp_async_commit();
    int at_k = -1, at_v = -1;                                        // whose own rows are there
    NO_UNROLL for (int n = 0; n < span * count; ++n) {
        const int head = head0 + n / count, row0 = begin + n % count * Tile::steps;
        if (head / per_k != at_k || head / per_v != at_v) {
            __syncthreads();
            at_k = head / per_k, at_v = head / per_v;
            const auto k_side = side_of(k, k_at, wide >> 1 & 1, batch, k_steps, at_k, d_qk);
            const auto v_side = side_of(v, v_at, wide >> 2 & 1, batch, v_steps, at_v, d_v);
            bring<Tile, Tile::own>(k_side, key0, band.n_kv, a);
            bring<Tile, Tile::own>(v_side, key0, band.n_kv, b);
            cp_async_commit();
        }
        cp_async_wait<0>();
        __syncthreads();
        if (n + 1 < span * count) load(n + 1, n + 1 & 1);
        cp_async_commit();
        const unsigned x = ring + (n & 1) * 2 * Tile::step_bytes;
        const i64 values = (i64(batch) * heads + head) * s_q;
        float log[Tile::steps / 8][2], dot[Tile::steps / 8][2];
        UNROLL for (int j = 0; j < Tile::steps / 8; ++j) UNROLL for (int e = 0; e < 2; ++e) {
            const i64 at = values + min(row0 + j * 8 + lane % 4 * 2 + e, s_q - 1);
            log[j][e] = logs[at], dot[j][e] = dots[at];
        }
        typename Tile::Square s, d = {};
        typename Tile::Words words;
        multiply<Tile>(s, a + warp * 16 * Tile::line, x);
        if (DK) multiply<Tile>(d, b + warp * 16 * Tile::line, x + Tile::step_bytes);
        const unsigned mask = drops ? kept_of_queries<Tile::steps>(kept, batch, head, row0, mine) : 0;
        UNROLL for (int j = 0; j < Tile::steps / 8; ++j) UNROLL for (int e = 0; e < 2; ++e) {
            const int row = row0 + j * 8 + lane % 4 * 2 + e, query = min(row, s_q - 1);
            fuse_row<0>(batch, head, query);
            UNROLL for (int h = 0; h < 2; ++h) {
                const int i = 2 * h + e, key = min(mine + lane / 4 + 8 * h, s_kv - 1);
                SdpaBwdElement found;
                found.make<0>(s[j][i], d[j][i], log[j][e], dot[j][e], power,
                              drops ? mask >> 4 * j + i & 1 ? factor : 0 : 1, row >= first[h] && row < end[h],
                              batch, head, query, key);
                s[j][i] = found.weight, d[j][i] = found.gradient;
            }
        }
        if (DV) pack<T>(words, s), add<Tile>(to_v, words, x + Tile::step_bytes);
        if (DK) pack<T>(words, d), add<Tile>(to_k, words, x);
    }
    unsigned char* const own = memory + warp * 16 * Tile::line;
    const auto dk_side = side_of(dk, dk_at, wide >> 4 & 1, batch, dk_steps, unit, d_qk);
    const auto dv_side = side_of(dv, dv_at, wide >> 5 & 1, batch, dv_steps, unit, d_v);
    if (DK) put<Tile>(to_k, by, own, dk_side, mine, band.n_kv, s_kv);
    if (DV) put<Tile>(to_v, 1, own, dv_side, mine, band.n_kv, s_kv);
}
