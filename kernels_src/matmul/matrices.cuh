// What the tile program reads of matrix products: the Sources of tile/wgmma_blocks.cuh, of a batch and of one
// matrix each; and which dim of an operand is contiguous, as the axes of contracts say it.
#pragma once
#include "matmul/batch.cuh"
#include "tile/wgmma_blocks.cuh"

namespace cydnn {

// The depth, in operands a, b, wide and few; the rows of a and wide, the columns of b, the rows of few.
struct InDepth { static constexpr bool k_major = true; };
struct Across { static constexpr bool k_major = false; };
using ak = InDepth;
using bk = InDepth;
using wk = InDepth;
using fk = InDepth;
using am = Across;
using bn = Across;
using wm = Across;
using fn = Across;

template <class Tile, class A, class B> struct Matrices {
    const CUtensorMap &a, &b;
    const Array<int, 3>&a_moves, &b_moves;
    const Array<FastDiv, BATCH_DIMS>& batch;
    const BatchSteps& c_batch;
    static constexpr bool may_cast = Tile::m + Tile::n == 384, by_hand = false, in_pieces = false;
    int row = 0, col = 0, depth = 0, at_a[3] = {}, at_b[3] = {};
    WgmmaBrings brings = ALL;

    DEVICE void ahead() const { tensor_ahead(a), tensor_ahead(b); }
    DEVICE void box(unsigned matrix, int (&at)[3]) const {
        unsigned digit;
        matrix = batch[0].divmod(matrix, digit), at[0] = digit;
        at[2] = batch[1].divmod(matrix, digit), at[1] = digit;
    }
    DEVICE i64 offset(unsigned matrix) const {
        i64 unused, same, off;
        batch_offsets(matrix, batch, c_batch, c_batch, c_batch, unused, same, off);
        return off;
    }
    DEVICE int column(unsigned) const { return 0; }
    DEVICE void begin(const TileAt& tile, int first) {
        int at[3];
        box(tile.matrix, at);
        UNROLL for (int d = 0; d < 3; ++d) at_a[d] = at[d] * a_moves[d], at_b[d] = at[d] * b_moves[d];
        row = tile.row, col = tile.col, depth = first;
    }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        A::load(stage, a, depth, row, at_a, full);
        B::load(stage + Tile::a_bytes, b, depth, col, at_b, full, brings);
        depth += Tile::k;
    }
};

// What is read: a matrix each.
template <class Tile, class A, class B> struct TwoMatrices {
    static constexpr bool may_cast = false, by_hand = false, in_pieces = false;
    const CUtensorMap &a, &b;
    int row = 0, col = 0, depth = 0;

    DEVICE void ahead() const { tensor_ahead(a), tensor_ahead(b); }
    DEVICE void box(unsigned, int (&at)[3]) const { at[0] = 0, at[1] = 0, at[2] = 0; }
    DEVICE i64 offset(unsigned) const { return 0; }
    DEVICE int column(unsigned) const { return 0; }
    DEVICE void begin(const TileAt& tile, int first) { row = tile.row, col = tile.col, depth = first; }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        const int none[3] = {};
        A::load(stage, a, depth, row, none, full);
        B::load(stage + Tile::a_bytes, b, depth, col, none, full);
        depth += Tile::k;
    }
};

}  // namespace cydnn
