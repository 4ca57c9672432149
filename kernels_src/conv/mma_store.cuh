// A tile of results in shared memory goes to rows of any length.
#pragma once
#include "tile/store.cuh"

namespace cydnn {

// `store_tile`, but rows that are not made of whole vectors are stored element by element, neighbours by
// neighbouring lanes.
template <class Elem, class Tile, class Pixel>
DEVICE void store_rows(const typename Tile::Sum* tile, Elem* y, Pixel pixel, int channel, int cols,
                       int channels, float alpha, float beta) {
    if (channels % 8 == 0 && cols % 8 == 0)
        return store_tile<Elem, Tile>(tile, y, pixel, channel, cols, channels, alpha, beta);
    const unsigned wide = min(cols, Tile::n), elements = Tile::m * wide;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < elements; i += Tile::threads) {
        const int row = i / wide, col = i - row * wide, at = pixel(row);
        if (at < 0) continue;
        const i64 off = i64(at) * channels + channel + col;
        float v[1] = {alpha * tile[row * (Tile::n + 8) + col]};
        if (beta != 0.f) v[0] += beta * to_acc(y[off]);
        fuse_epilogue(v, off, channel + col);
        y[off] = from_acc<Elem>(v[0]);
    }
}

}  // namespace cydnn
