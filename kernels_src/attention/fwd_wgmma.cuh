// Attention on Hopper (sm_90a): the parts of sdpa_fwd_wgmma.cu.
//
//   SdpaTile<f16, Qk, V, Rows, Keys> sizes: Rows queries of a head, Keys of a step, their depths
//   SdpaShared<Tile>                 what a block has in shared memory, and its barriers
//   SdpaWork, SdpaOrder              a tile of queries and the keys that they see; which one is the n-th
//   sdpa_bring_q, sdpa_bring_kv      the two warps that load
//   SdpaSums<Tile>                   a warpgroup that multiplies: 64 queries
//
// A row of shared memory is 64 elements of a query, key or value, 128 bytes, in TMA's swizzle; the next 64
// elements lie a panel further on. Keys go from the last to the first, K a step ahead of V.
//
// Weights are exp2(score - top), where `top` is a maximum known before the step, and ROOM above it: so a step
// searches none. Each thread's sum of a row tells when weights rose above MOST; only then the row gets a new
// maximum, and what was summed so far shrinks. bf16 has the exponents of f32, so neither costs bits.
#pragma once
#include "wgmma_registers.cuh"
#include "lib/math.cuh"

namespace cydnn {

template <class Type> struct SdpaRange;
template <> struct SdpaRange<bf16> { static constexpr float room = 16, most = 65536; };
template <> struct SdpaRange<f16> { static constexpr float room = 0, most = 32768; };

// Rows queries of a tile, Keys of a step: what registers have room for beside the sums of o.
template <class Elem, int DepthQk, int DepthV, int Rows, int Keys> struct SdpaTile {
    using Type = Elem;
    static constexpr int depth_qk = DepthQk, depth_v = DepthV, rows = Rows, keys = Keys;
    static constexpr int groups = rows / 64, threads = 128 * (groups + 1);
    static constexpr int gives = groups == 3 ? 32 : 40, takes = groups == 3 ? 160 : 232;    // registers
    static constexpr int stages = DepthQk <= 64 ? 4 : 2;
    // Warpgroups ask for products in turns; at other depths they do as well without.
    static constexpr bool has_turns = DepthQk == 128;
    // Two steps a round, so that no weights are copied; short rows of small heads, and registers, forbid it.
    static constexpr bool has_pairs = DepthV < 256 && (DepthQk > 64 || groups == 3);
    static constexpr int q_panel = rows * LINE, k_panel = keys * LINE;                      // bytes
    static constexpr int q_bytes = DepthQk / 64 * q_panel, k_bytes = DepthQk / 64 * k_panel;
    static constexpr int v_bytes = DepthV / 64 * k_panel, o_bytes = DepthV / 64 * q_panel;
    // A second tile of queries and a place for o, or o goes where its queries were.
    static constexpr bool is_wide = 2 * q_bytes + stages * (k_bytes + v_bytes) + o_bytes > 225 * 1024;
    static constexpr int q_slots = is_wide ? 1 : 2;
    static constexpr int bytes = q_slots * q_bytes + stages * (k_bytes + v_bytes) + (is_wide ? 0 : o_bytes);
    static_assert(DepthV <= DepthQk && keys % 16 == 0);
};

// Keys from block `first` to before `end`; those from `whole` to before `whole_end` all queries see whole.
struct SdpaWork {
    int batch, head, row, queries, keys, first, end, whole, whole_end;       // queries, keys: of the batch
    DEVICE bool has_keys() const { return first < end; }
};

struct SdpaOrder {
    const int *len_q, *len_kv;
    i64 len_q_step, len_kv_step;
    int batches, heads, s_q, s_kv, left, right, from_end, section;
    unsigned* next;                                                  // tiles that blocks have taken, or null

    DEVICE int shift(const SdpaWork& w) const { return from_end ? w.keys - w.queries : 0; }
    DEVICE int first_of(const SdpaWork& w, int row) const {
        return left < 0 ? 0 : max(0, row + shift(w) - left);
    }
    DEVICE int end_of(const SdpaWork& w, int row) const {
        return right < 0 ? w.keys : min(w.keys, row + shift(w) + right + 1);
    }
    // The n-th tile of this block: those after the first one as they are taken, or with equal work in mind:
    // every other round goes backwards.
    DEVICE int take(int n) const {
        if (n > 0 && next) return gridDim.x + atomicAdd(next, 1u);
        return n * gridDim.x + (n & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    }
    // What tile t is; row -1: there is none. Sections of heads, whose keys fit the cache; in each the last
    // queries first, as they see most where bounds hide keys.
    template <class Tile> DEVICE void at(int t, SdpaWork& w) const {
        const int row_tiles = ceil_div(s_q, Tile::rows), count = batches * heads;
        w.row = -1, w.first = 0, w.end = 0;
        if (t >= row_tiles * count) return;
        const int part = t / (section * row_tiles), rest = t - part * section * row_tiles;
        const int among = min(section, count - part * section), back = rest / among;
        const int head = part * section + rest - back * among;
        w.batch = head / heads, w.head = head - w.batch * heads, w.row = (row_tiles - 1 - back) * Tile::rows;
        w.queries = len_q ? max(0, min(len_q[w.batch * len_q_step], s_q)) : s_q;
        w.keys = len_kv ? max(0, min(len_kv[w.batch * len_kv_step], s_kv)) : s_kv;
        const int last = min(w.row + Tile::rows, w.queries) - 1;
        w.first = first_of(w, w.row) / Tile::keys;
        w.end = last < w.row ? 0 : ceil_div(end_of(w, last), Tile::keys);
        w.whole = ceil_div(first_of(w, max(last, w.row)), Tile::keys);
        w.whole_end = max(0, end_of(w, w.row)) / Tile::keys;
    }
};

template <class Tile> struct SdpaShared {
    unsigned char* const begin;
    struct Barriers {
        uint64_t work_full[2], work_empty[2], q_full[2], q_empty[2], v_raw;
        uint64_t k_full[4], k_empty[4], v_full[4], v_empty[4];
        SdpaWork work[2];
    }* const barriers;

    DEVICE explicit SdpaShared(unsigned char* shared)
        : begin(shared + (-shared_address(shared) & 1023)),
          barriers(reinterpret_cast<Barriers*>(begin + Tile::bytes)) {}
    DEVICE unsigned char* q(int slot) const { return begin + slot * Tile::q_bytes; }
    DEVICE unsigned char* k(int stage) const { return q(Tile::q_slots) + stage * Tile::k_bytes; }
    DEVICE unsigned char* v(int stage) const { return k(Tile::stages) + stage * Tile::v_bytes; }
    DEVICE unsigned char* o(int slot) const { return Tile::is_wide ? q(slot) : v(Tile::stages); }
    // One thread, then a barrier of the block.
    DEVICE void init() const {
        UNROLL for (int i = 0; i < 2; ++i) {
            barrier_init(barriers->work_full + i, 1), barrier_init(barriers->work_empty + i, 1);
            barrier_init(barriers->q_full + i, 1), barrier_init(barriers->q_empty + i, 4 * Tile::groups);
        }
        UNROLL for (int i = 0; i < Tile::stages; ++i) {
            barrier_init(barriers->k_full + i, 1), barrier_init(barriers->k_empty + i, Tile::groups);
            barrier_init(barriers->v_full + i, 1), barrier_init(barriers->v_empty + i, Tile::groups);
        }
        barrier_init(&barriers->v_raw, 1);
        barriers_begin();
    }
};

// Where the tensors of a head lie in their maps, (depth, row, head, batch).
struct SdpaPlace {
    const CUtensorMap& map;
    int per_head;                                                    // heads of q for one of this
    Array<int, 2> moves;                                             // 0: the same for every head, batch
    template <int Panels> DEVICE void load(unsigned char* to, int panel, const SdpaWork& w, int row,
                                           uint64_t* full) const {
        UNROLL for (int i = 0; i < Panels; ++i) {
            const int at[5] = {64 * i, row, w.head / per_head * moves[0], w.batch * moves[1], 0};
            tensor_load(to + i * panel, map, at, full);
        }
    }
};

// One thread: takes tiles, a tile ahead, and brings their queries. Who multiplies has read the work of the
// tile two before when its queries' slot is empty.
template <class Tile>
DEVICE void sdpa_bring_q(const SdpaShared<Tile>& shared, const SdpaOrder& order, const SdpaPlace& q) {
    auto* const b = shared.barriers;
    SdpaWork w;
    NO_UNROLL for (int n = 0;; ++n) {
        const int slot = n % Tile::q_slots;
        const unsigned parity = n / Tile::q_slots & 1 ^ 1;
        if (!Tile::is_wide) barrier_wait(b->q_empty + slot, parity);
        order.at<Tile>(order.take(n), w);
        barrier_wait(b->work_empty + n % 2, n / 2 & 1 ^ 1);
        b->work[n % 2] = w;
        barrier_arrive(b->work_full + n % 2);
        if (Tile::is_wide) barrier_wait(b->q_empty + slot, parity);
        if (!w.has_keys()) barrier_arrive(b->q_full + slot);
        else {
            barrier_expect(b->q_full + slot, Tile::q_bytes);
            q.load<Tile::depth_qk / 64>(shared.q(slot), Tile::q_panel, w, w.row, b->q_full + slot);
        }
        if (w.row < 0) return;
    }
}

// A warp: keys, and values a step behind them. Values beyond the length of their batch become 0: 0 times what
// lies there may be NaN.
template <class Tile> struct SdpaBringKv {
    const SdpaShared<Tile>& shared;
    const SdpaPlace &k, &v;
    int k_count = 0, v_count = 0, raw_count = 0;

    DEVICE void load_k(const SdpaWork& w, int block) {
        const int stage = k_count % Tile::stages;
        uint64_t* const full = shared.barriers->k_full + stage;
        barrier_wait(shared.barriers->k_empty + stage, k_count++ / Tile::stages & 1 ^ 1);
        if (threadIdx.x % 32 == 0) {
            barrier_expect(full, Tile::k_bytes);
            k.load<Tile::depth_qk / 64>(shared.k(stage), Tile::k_panel, w, block * Tile::keys, full);
        }
        __syncwarp();
    }
    DEVICE void load_v(const SdpaWork& w, int block, int s_kv) {
        const int stage = v_count % Tile::stages, lane = threadIdx.x % 32, left = w.keys - block * Tile::keys;
        const bool is_cut = w.keys < s_kv && left < Tile::keys;
        uint64_t* const full = shared.barriers->v_full + stage;
        uint64_t* const arrived = is_cut ? &shared.barriers->v_raw : full;
        unsigned char* const to = shared.v(stage);
        barrier_wait(shared.barriers->v_empty + stage, v_count++ / Tile::stages & 1 ^ 1);
        if (lane == 0) {
            barrier_expect(arrived, Tile::v_bytes);
            v.load<Tile::depth_v / 64>(to, Tile::k_panel, w, block * Tile::keys, arrived);
        }
        __syncwarp();
        if (!is_cut) return;
        barrier_wait(arrived, raw_count++ & 1);
        NO_UNROLL for (int i = left * CHUNKS + lane; i < Tile::keys * CHUNKS; i += 32)
            UNROLL for (int p = 0; p < Tile::depth_v / 64; ++p)
                *reinterpret_cast<uint4*>(to + p * Tile::k_panel + i * CHUNK) = uint4{};
        fence_async();
        __syncwarp();
        if (lane == 0) barrier_arrive(full);
    }
};

template <class Tile>
DEVICE void sdpa_bring_kv(const SdpaShared<Tile>& shared, int s_kv, const SdpaPlace& k, const SdpaPlace& v) {
    SdpaBringKv<Tile> bring = {shared, k, v};
    auto* const b = shared.barriers;
    SdpaWork before;
    int block = -1;                                                  // whose values are still to come
    NO_UNROLL for (int n = 0;; ++n) {
        barrier_wait(b->work_full + n % 2, n / 2 & 1);
        const SdpaWork w = b->work[n % 2];
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(b->work_empty + n % 2);
        NO_UNROLL for (int j = w.end - 1; j >= w.first; --j) {
            bring.load_k(w, j);
            if (block >= 0) bring.load_v(before, block, s_kv);
            before = w, block = j;
        }
        if (!w.has_keys() && block >= 0) bring.load_v(before, block, s_kv), block = -1;
        if (w.row < 0) return;
    }
}

}  // namespace cydnn
