// The ways out of Hopper's tile program that also add up columns: of what leaves, as the code that is fused
// hands it over. For every 64 rows of c a row of sums, and one of sums of squares.
//
//   WgmmaSums<Tile, f16>  the Out of wgmma_blocks; forms ELEMENTS, ROWS and FUSED, a whole depth
//
// The sums of 64 rows do not depend on a tile that is whole; who adds the rows of `sums` does it in their
// order.
#pragma once
#include "tile/wgmma_blocks.cuh"

namespace cydnn {

// sums: [rows of 64][moments][columns], of all groups. way_out: of the first warpgroup.
template <class Tile, class Elem> struct WgmmaSums : WgmmaOut<Tile, Elem> {
    using Out = WgmmaOut<Tile, Elem>;
    float* sums;
    int moments, columns;
    unsigned char* way_out;

    DEVICE bool goes_in_boxes() const {
        __builtin_assume(this->form != BOXES);               // something is fused
        return this->form == FUSED && this->beta == 0.f;
    }

    // What is fused, then the sums of the warpgroup's 64 rows, through the box that comes next.
    DEVICE void change(float (&v)[32], i64 first, int column, int row, int col) const {
        Out::change(v, first, column, row, col);
        const int lane = threadIdx.x % 32, group = threadIdx.x / 128 - 1;
        unsigned char* box = way_out + group * SLICE + col / 64 % Tile::boxes * PART;
        float* part = reinterpret_cast<float*>(box) + threadIdx.x / 32 % 4 * 128 + 2 * lane;
        if (sends_boxes<Tile>()) store_wait_read<Tile::boxes - 1>();
        group_barrier(group);                                // the box is free
        *reinterpret_cast<float2*>(part) = rows_added<false>(v);
        if (moments > 1) *reinterpret_cast<float2*>(part + 64) = rows_added<true>(v);
        group_barrier(group);
        put_sums(box, 512, row, column, col);                // fill_box waits until all have read
    }

    // Of a warp's 16 rows of 64 columns, as `change` has them: those of the columns 2 lane and 2 lane + 1.
    template <bool IsSquare> static DEVICE float2 rows_added(const float (&v)[32]) {
        float s[16];
        UNROLL for (int j = 0; j < 8; ++j) UNROLL for (int e = 0; e < 2; ++e) {
            const float upper = v[4 * j + e], lower = v[4 * j + 2 + e];
            s[2 * j + e] = IsSquare ? upper * upper + lower * lower : upper + lower;
        }
        halve<8>(s), halve<4>(s), halve<2>(s);
        return make_float2(s[0], s[1]);
    }
    // Lanes that differ in one bit add what they have; who has it set keeps the upper half.
    template <int Half> static DEVICE void halve(float (&s)[16]) {
        const bool is_upper = threadIdx.x & 2 * Half;
        UNROLL for (int i = 0; i < Half; ++i) {
            const float keeps = is_upper ? s[Half + i] : s[i], gives = is_upper ? s[i] : s[Half + i];
            s[i] = keeps + __shfl_xor_sync(~0u, gives, 2 * Half);
        }
    }

    // The four warps' sums, `each` bytes apart, in their order. row: the first of the 64.
    DEVICE void put_sums(const unsigned char* from, int each, int row, int column, int col) const {
        const int moment = threadIdx.x / 64 % 2, at = threadIdx.x % 64;
        if (moment >= moments || col + at >= this->n || row >= this->m) return;
        float sum = 0.f;
        UNROLL for (int warp = 0; warp < 4; ++warp)
            sum += reinterpret_cast<const float*>(from + warp * each)[64 * moment + at];
        sums[(i64(row / 64) * moments + moment) * columns + column + col + at] = sum;
    }

    DEVICE void put(const typename Tile::Sum (&d)[Tile::sums], const WgmmaRing<Tile>&, int group, i64 first,
                    int column, const TileAt& tile, const Depth<Tile>&) const {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        unsigned char* out = way_out + group * SLICE;
        const Slice slice = {out + warp * Tile::warp_bytes};
        NO_UNROLL for (int s = 0; s < Tile::group_n / 64; ++s) {
            const int row = tile.row + slice_row<Tile>(group, warp);
            const int col = tile.col + slice_col<Tile>(group, s);
            group_barrier(group);                            // what was there has been read
            UNROLL for (int i = 0; i < Tile::group_n / 64; ++i)
                if (i == s) slice.put(d + 32 * i, lane);
            __syncwarp();
            if (this->form != ELEMENTS) keep_vectors(slice, first, column, row, col);
            else keep_elements(slice, first, column, row, col);
            __syncwarp();
            float2 sum = {}, square = {};
            NO_UNROLL for (int r = 0; r < min(16, this->m - row); ++r) {
                const float2 two = *reinterpret_cast<float2*>(slice.chunk(r, lane / 2) + lane % 2 * 2);
                sum.x += two.x, sum.y += two.y;
                square.x += two.x * two.x, square.y += two.y * two.y;
            }
            __syncwarp();
            float2* part = reinterpret_cast<float2*>(slice.at) + lane;
            part[0] = sum, part[32] = square;
            group_barrier(group);
            put_sums(out, Tile::warp_bytes, tile.row + slice_row<Tile>(group, 0), column, col);
        }
    }

    // As put_vectors and put_elements; what leaves stays in the slice, too.
    DEVICE void keep_vectors(const Slice& slice, i64 first, int column, int row0, int col0) const {
        const int lane = threadIdx.x % 32, r = lane / 8, q = lane % 8 * 8, col = col0 + q;
        i64 off = first + (row0 + r) * this->c_m + col;
        Slice here = slice;                                  // 4 rows at once: the swizzle repeats with them
        const int rows = col < this->n ? min(16 - r, this->m - row0 - r) : 0;
        NO_UNROLL for (int e = 0; e < rows; e += 4, off += 4 * this->c_m, here.at += 1024) {
            float v[8], old[8] = {};
            here.get(v, r, q);
            if (this->beta != 0.f) Vec<Elem, 8>::load(this->c + off).get(old);
            UNROLL for (int x = 0; x < 8; ++x) v[x] = this->alpha * v[x] + this->beta * old[x];
            fuse_epilogue(v, off, column + col);
            Vec<Elem, 8>::of(v).store(this->c + off);
            here.set(v, r, q);
        }
    }
    DEVICE void keep_elements(const Slice& slice, i64 first, int column, int row0, int col0) const {
        NO_UNROLL for (int e = threadIdx.x % 32; e < 1024; e += 32) {
            const int row = row0 + e / 64, col = col0 + e % 64;
            if (row >= this->m || col >= this->n) continue;
            const i64 off = first + row * this->c_m + col * this->c_n;
            float* at = slice.chunk(e / 64, e % 64 / 4) + e % 4;
            float v[1] = {blend(this->alpha, *at, this->beta, this->c + off)};
            fuse_epilogue(v, off, column + col);
            this->c[off] = from_acc<Elem>(v[0]);
            *at = v[0];
        }
    }
};

}  // namespace cydnn
