// Attention on tensor cores by mma.sync (sm_80): what sdpa_fwd_mma.cu reads.
//
//   SdpaMma<f16, Depth, Rows>    sizes: Rows queries of heads that share keys, heads of up to Depth elements
//   SdpaSeen                     the keys that a block's queries see
//   SdpaBring<Tile>              a warp's share of the keys and values of a step, by cp.async
//
// A team is the warps that go through the same keys, 16 queries each. Where a block has few queries its warps
// are teams of their own, whose sums are added at the end, in their order.
//
// Shared memory: a ring for each team, a stage is the keys of a step, then their values; a row is one key's
// Depth elements, chunk c of row r at place c ^ (r & 7) (tile/mma.cuh).
#pragma once
#include "lib/math.cuh"
#include "tile/mma.cuh"

namespace cydnn {

template <class Elem, int Depth, int Rows> struct SdpaMma {
    using Type = Elem;
    static constexpr bool is_wide = Depth > 128;                     // registers have no room for queries
    static constexpr int depth = Depth, rows = Rows, row_warps = Rows / 16;
    static constexpr int warps = is_wide && row_warps == 1 ? 2 : 4, teams = warps / row_warps;
    static constexpr int share = is_wide && row_warps > 1 ? 8 : 16;  // keys that a warp brings in a step
    static constexpr int keys = share * row_warps, block_keys = keys * teams;
    static constexpr int line = Depth * 2, k_bytes = keys * line, stage_bytes = 2 * k_bytes;
    static constexpr int stages = is_wide ? 2 : row_warps > 1 ? 128 / Depth + 1 : 384 / Depth;
    static constexpr int ring_bytes = teams * stages * stage_bytes, q_bytes = is_wide ? rows * line : 0;
    static constexpr int pitch = Depth + 8;                          // of sums in shared memory, in floats
    static_assert(teams * rows * (pitch + 2) * 4 <= ring_bytes + q_bytes);
};

// Rows of a block are `group` heads of one query, then those of the next. Keys from `begin` to before `stop`
// are seen by some of them, those from `whole` to before `whole_end` by all.
struct SdpaSeen {
    int n_q, n_kv, shift, left, right, begin, stop, whole, whole_end;

    DEVICE int first_of(int query) const { return max(0, query + shift - left); }
    DEVICE int end_of(int query) const {
        return query < n_q ? max(0, min(n_kv, query + shift + right + 1)) : 0;
    }
    // Of the queries `from` to `to`.
    DEVICE void set(int from, int to, int step) {
        const int last = min(to, n_q - 1);
        begin = first_of(from) / step * step, stop = last < from ? 0 : end_of(last);
        whole = first_of(to), whole_end = to < n_q ? end_of(from) : 0;
    }
};

// Keys or values of a batch, of one head: elements from `begin` to before `end`, of which a row has `depth`.
template <class Type> struct SdpaSide {
    const Type* data;
    const int* table;
    i64 begin, end, table_step, page_step, key_step;
    FastDiv block;
    int pages, depth;

    DEVICE int page_of(int key, int stop) const {
        return table && key < stop ? table[block.div(key) * table_step] : 0;
    }
    // Where a key is, in elements; -1: nowhere, it holds zeros.
    DEVICE i64 find(int key, int stop, int page) const {
        if (key >= stop || table && (page < 0 || page >= pages)) return -1;
        return begin + (table ? page * page_step + block.mod(key) * key_step : key * key_step);
    }
    // How many elements there are of a row that lies there.
    DEVICE int count(i64 off) const { return off < 0 ? 0 : int(max(i64(0), min(i64(depth), end - off))); }
};

// Each lane knows where one key or one value is, and tells those that copy it. The pages of a step are looked
// up a step before.
template <class Tile> struct SdpaBring {
    using Type = typename Tile::Type;
    static constexpr int chunks = Tile::depth / 8, at_once = 32 / chunks, share = Tile::share;
    const SdpaSide<Type>&k, &v;
    SdpaSide<Type> own;                                              // the lane's: of k, or of v
    int key, page;                                                   // key: the next one of the lane
    const int stop;
    const unsigned to;

    DEVICE SdpaBring(const SdpaSide<Type>& k, const SdpaSide<Type>& v, int first, int end, unsigned ring)
        : k(k), v(v), own(threadIdx.x % 32 / share % 2 ? v : k), key(first + threadIdx.x % share), stop(end),
          to(ring) {
        page = own.page_of(key, stop);
    }
    DEVICE void load(int slot) {
        const int c = threadIdx.x % chunks, r0 = threadIdx.x % 32 / chunks;
        const i64 off = own.find(key, stop, page);
        const int count = own.count(off);
        const unsigned stage = to + slot * Tile::stage_bytes;
        key += Tile::block_keys, page = own.page_of(key, stop);
        if ((k.begin | v.begin) & 7) return load_unaligned(off, count, stage);
        auto copy = [&](const Type* data, int first, unsigned rows) {
            UNROLL for (int r = r0; r < share + r0; r += at_once) {
                const i64 at = __shfl_sync(~0u, off, first + r) + c * 8;
                const int have = __shfl_sync(~0u, count, first + r) - c * 8;
                cp_async<16>(rows + swizzled(r, c, Tile::line), data + at, 2 * max(0, min(8, have)));
            }
        };
        copy(k.data, 0, stage), copy(v.data, share, stage + Tile::k_bytes);
    }
    // Where a batch of a ragged tensor begins anywhere.
    DEVICE void load_unaligned(i64 off, int count, unsigned stage) {
        NO_UNROLL for (int i = threadIdx.x % 32; i < 2 * share * chunks; i += 32) {
            const int c = i % chunks, r = i / chunks;
            const auto* const data = reinterpret_cast<const unsigned short*>(r < share ? k.data : v.data);
            const i64 at = __shfl_sync(~0u, off, r) + c * 8;
            const int have = __shfl_sync(~0u, count, r) - c * 8;
            const unsigned begin = stage + (r < share ? 0 : Tile::k_bytes);
            const unsigned place = begin + swizzled(r % share, c, Tile::line);
            NO_UNROLL for (int n = 0; n < 8; ++n) {
                const unsigned short word = n < have ? data[at + n] : 0;
                asm volatile("st.shared.u16 [%0], %1;" :: "r"(place + 2 * n), "h"(word) : "memory");
            }
        }
    }
};

}  // namespace cydnn
