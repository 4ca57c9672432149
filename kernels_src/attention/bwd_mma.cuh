// Attention's gradients on tensor cores by mma.sync (sm_80): what sdpa_bwd_mma_*.cu share.
//
//   SdpaBwdMma<f16, Depth>       sizes: a block owns 64 queries (or keys), 16 a warp, and goes through the
//                                keys (or queries) that they see (or are seen by)
//   SdpaBwdSide<Type>            rows of one head of a batch, in memory
//   bring<Tile, Rows>(…)         the block: such rows to shared memory, by cp.async
//   multiply<Tile>, add<Tile>    a warp: the products of own rows with those of a step, and with their sum
//   put<Tile>(…)                 a warp: its rows of a gradient to memory
//
// Shared memory: own rows a (q, or k) and b (do, or v), then stages of x (k, or q) and y (v, or do). A row
// has Depth elements, chunk c of row r at place c ^ (r & 7) (tile/mma.cuh).
#pragma once
#include "any_bwd.cuh"
#include "fwd_mma_sums.cuh"
#include "kept.cuh"

namespace cydnn {

template <class Elem, int Depth> struct SdpaBwdMma {
    using Type = Elem;
    static constexpr int depth = Depth, own = 64, steps = 64 * 64 / Depth, stages = 2;
    static constexpr int line = Depth * 2, own_bytes = own * line, step_bytes = steps * line;
    using Sums = float[Depth / 8][4];                                // 16 own rows, as mma_m16n8 has them
    using Square = float[steps / 8][4];
    using Words = unsigned[steps / 16][4];                           // a square, as an operand
};

template <class Type> struct SdpaBwdSide {
    Type* data;
    Batch in;
    i64 head, step;                                                  // where a head begins; of a row
    int depth;
    DEVICE i64 at(int row, int c) const { return in.begin + head + row * step + c; }
    // How many elements there are from column c of a row on, at most 8.
    DEVICE int count(i64 off, int c) const {
        return off < 0 ? 0 : int(max(i64(0), min(i64(min(8, depth - c)), in.end - off)));
    }
};

template <class Type>
DEVICE SdpaBwdSide<Type> side_of(Type* data, const int* begins, int is_wide, int batch,
                                 const Array<i64, 3>& steps, int head, int depth) {
    return {data, Batch(begins, is_wide, batch, steps[0]), head * steps[1], steps[2], depth};
}

// `Rows` rows from `first` on to `to`; those from `end` on are 0.
template <class Tile, int Rows, class Type>
DEVICE void bring(const SdpaBwdSide<Type>& x, int first, int end, unsigned to) {
    constexpr int chunks = Tile::depth / 8, at_once = 128 / chunks;
    const int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    i64 off = x.at(first + row, chunk * 8);
    if (x.in.begin & 7) {                                            // a batch that begins anywhere
        const auto* const halves = reinterpret_cast<const unsigned short*>(x.data);
        NO_UNROLL for (int r = row; r < Rows; r += at_once, off += at_once * x.step) {
            const int count = first + r < end ? x.count(off, chunk * 8) : 0;
            const unsigned place = to + swizzled(r, chunk, Tile::line);
            NO_UNROLL for (int n = 0; n < 8; ++n) {
                const unsigned short word = n < count ? halves[off + n] : 0;
                asm volatile("st.shared.u16 [%0], %1;" :: "r"(place + 2 * n), "h"(word) : "memory");
            }
        }
        return;
    }
    UNROLL for (int r = 0; r < Rows; r += at_once, off += at_once * x.step) {
        const int count = first + row + r < end ? x.count(off, chunk * 8) : 0;
        cp_async<16>(to + swizzled(row + r, chunk, Tile::line), x.data + (count > 0 ? off : 0), 2 * count);
    }
}

// s = own @ x^T; own: the warp's rows.
template <class Tile> DEVICE void multiply(typename Tile::Square& s, unsigned own, unsigned x) {
    const int lane = threadIdx.x % 32, row = lane % 8 + lane / 16 * 8;
    const unsigned a_at = own + swizzled(lane % 16, lane / 16, Tile::line);
    const unsigned b_at = x + swizzled(row, lane / 8 % 2, Tile::line);
    UNROLL for (int j = 0; j < Tile::steps / 8; ++j) UNROLL for (int i = 0; i < 4; ++i) s[j][i] = 0;
    UNROLL for (int kk = 0; kk < Tile::depth / 16; ++kk) {
        unsigned a[4], b[4];
        ldmatrix_x4(a, a_at ^ kk * 2 * CHUNK);
        UNROLL for (int j = 0; j < Tile::steps / 16; ++j) {
            ldmatrix_x4(b, (b_at ^ kk * 2 * CHUNK) + j * 16 * Tile::line);
            mma_m16n8<typename Tile::Type>(s[2 * j], a, {b[0], b[1]});
            mma_m16n8<typename Tile::Type>(s[2 * j + 1], a, {b[2], b[3]});
        }
    }
}
// sums += by @ x
template <class Tile> DEVICE void add(typename Tile::Sums& sums, const typename Tile::Words& by, unsigned x) {
    const unsigned at = x + swizzled(threadIdx.x % 16, threadIdx.x % 32 / 16, Tile::line);
    UNROLL for (int i = 0; i < Tile::steps / 16; ++i)
        UNROLL for (int j = 0; j < Tile::depth / 16; ++j) {
            unsigned b[4];
            ldmatrix_x4_trans(b, (at ^ j * 2 * CHUNK) + i * 16 * Tile::line);
            mma_m16n8<typename Tile::Type>(sums[2 * j], by[i], {b[0], b[1]});
            mma_m16n8<typename Tile::Type>(sums[2 * j + 1], by[i], {b[2], b[3]});
        }
}
// Element i of block j of a square has its place in the words that are an operand.
template <class Type, class Words, class Square> DEVICE void pack(Words& words, const Square& s) {
    UNROLL for (int i = 0; i < int(sizeof(Words) / 4); ++i)
        words[i / 4][i % 4] = pair_of<Type>(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
}

// The warp's rows, from `first` on below `end`, by way of its own rows in shared memory; 0 from `kept` on.
template <class Tile>
DEVICE void put(const typename Tile::Sums& sums, float by, unsigned char* own,
                const SdpaBwdSide<typename Tile::Type>& to, int first, int kept, int end) {
    using Type = typename Tile::Type;
    constexpr int chunks = Tile::depth / 8;
    const int lane = threadIdx.x % 32;
    __syncwarp();                                                    // all have read them
    UNROLL for (int h = 0; h < 2; ++h) {
        const int row = lane / 4 + 8 * h;
        const float factor = first + row < kept ? by : 0;
        UNROLL for (int j = 0; j < chunks; ++j)
            *reinterpret_cast<unsigned*>(own + swizzled(row, j, Tile::line) + lane % 4 * 4) =
                factor == 0 ? 0 : pair_of<Type>(sums[j][2 * h] * factor, sums[j][2 * h + 1] * factor);
    }
    __syncwarp();
    NO_UNROLL for (int i = lane; i < 16 * chunks; i += 32) {
        const int row = i / chunks, c = i % chunks * 8;
        const i64 off = to.at(first + row, c);
        const int count = first + row < end ? to.count(off, c) : 0;
        const auto line = Vec<Type, 8>::load(reinterpret_cast<const Type*>(
            own + swizzled(row, i % chunks, Tile::line)));
        if (count == 8 && off % 8 == 0) line.store(to.data + off);
        else UNROLL for (int n = 0; n < 8; ++n)
            if (n < count) to.data[off + n] = line[n];
    }
}

// What an element of the square becomes: its weight, times what is kept of it, and the gradient of its score.
// value: the product of q and k; slope: that of do and v. `slot`: of what marks keep for the query.
struct SdpaBwdElement {
    float weight, gradient;
    template <int Slot>
    DEVICE void make(float value, float slope, float log, float dot, float scale, float kept, bool is_seen,
                     int batch, int head, int query, int key) {
        fuse_score<Slot>(value, batch, head, query, key);
        const float p = is_seen ? weight_of(fmaf(value, scale, -log)) : 0;
        float factor = 1;
        fuse_weight<Slot>(factor, batch, head, query, key);
        factor *= kept;
        float found = p * ((factor != 0 ? factor * slope : 0) - dot);
        fuse_dscore<Slot>(found, batch, head, query, key);
        weight = is_seen ? p * factor : 0, gradient = is_seen ? found : 0;
    }
};

}  // namespace cydnn
