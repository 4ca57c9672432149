// What the convolutions of Hopper's tile program read: an image through windows by TMA's im2col, and filters.
// The Source of tile/wgmma_blocks.cuh.
#pragma once
#include "mma_rows.cuh"
#include "tile/wgmma_blocks.cuh"

namespace cydnn {
struct bk { static constexpr bool k_major = true; };
struct bn { static constexpr bool k_major = false; };

template <class Tile, class Major> struct Windows {
    using B = WgmmaPanel<typename Tile::Elem::Type, Tile::n, Major::k_major>;
    static constexpr bool may_cast = false, by_hand = false, in_pieces = false;
    const CUtensorMap &x, &w;
    const Array<FastDiv, 3>&out, &taps;
    const Array<int, 3>&stride, &first, &dilation;
    int rank, channels, columns, is_flipped;
    i64 y_n;
    int at[4] = {}, tap[3] = {};                         // base pixel: n, d, h, w
    int chunk = 0, x_channel = 0, w_depth = 0, w_row = 0;    // of a line in the group; where the group begins

    DEVICE void ahead() const { tensor_ahead(x), tensor_ahead(w); }
    DEVICE void box(unsigned group, int (&at)[3]) const { at[0] = group, at[1] = 0, at[2] = 0; }
    DEVICE i64 offset(unsigned group) const { return i64(group) * columns * y_n; }
    DEVICE int column(unsigned group) const { return int(group) * columns; }
    DEVICE void begin(const TileAt& tile, int depth) {
        unsigned rest = depth / Tile::k, digit;
        UNROLL for (int d = 2; d >= 0; --d) rest = taps[d].divmod(rest, digit), tap[d] = digit;
        chunk = rest * Tile::k, x_channel = tile.matrix * channels;
        w_depth = Major::k_major ? 0 : x_channel;
        w_row = (Major::k_major ? column(tile.matrix) : 0) + tile.col;
        pixel_of(tile.row, out.v, at);
        UNROLL for (int d = 0; d < 3; ++d) at[d + 1] = at[d + 1] * stride[d] + first[d];
    }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        rows(stage, full), columns_of(stage + Tile::a_bytes, full), next();
    }
    DEVICE void rows(unsigned char* to, uint64_t* full) const { pixels(to, x, x_channel + chunk, full); }
    DEVICE void pixels(unsigned char* to, const CUtensorMap& x, int c, uint64_t* full) const {
        const int by[3] = {tap[2] * dilation[2], tap[1] * dilation[1], tap[0] * dilation[0]};
        if (rank == 4) pixels_load(to, x, {c, at[3], at[2], at[0]}, {by[0], by[1]}, full);
        else pixels_load(to, x, {c, at[3], at[2], at[1], at[0]}, by, full);
    }
    DEVICE void filter_tap(int (&of)[3]) const {         // width first
        UNROLL for (int d = 0; d < 3; ++d) of[2 - d] = is_flipped ? int(taps[d].by) - 1 - tap[d] : tap[d];
    }
    DEVICE void columns_of(unsigned char* to, uint64_t* full) const {
        int of[3];
        filter_tap(of);
        B::load(to, w, w_depth + chunk, w_row, of, full);
    }
    DEVICE void next() {                                 // Tile::k of the depth
        if (++tap[2] < int(taps[2].by)) return;
        tap[2] = 0;
        if (++tap[1] < int(taps[1].by)) return;
        tap[1] = 0;
        if (++tap[0] < int(taps[0].by)) return;
        tap[0] = 0, chunk += Tile::k;
    }
};
}  // namespace cydnn
