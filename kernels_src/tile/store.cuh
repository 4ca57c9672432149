// The epilogue of fprop and dgrad: sums -> shared memory -> 8 neighbouring channels a thread -> NHWC.
#pragma once
#include "lib/epilogue.cuh"
#include "lib/math.cuh"
#include "mma.cuh"

namespace cydnn {

// sums to shared memory, row-major. A row is padded by 8 sums: the 8-byte stores of half a warp (4 rows, 4
// lanes each) fall into 32 different banks. Begins when all warps have left the stages, ends when all sums
// are there.
template <class Tile>
DEVICE void spill_sums(typename Tile::Sum* tile, const MmaSums<Tile>& sums, int warp_m, int warp_n,
                       int lane) {
    __syncthreads();
    UNROLL for (int i = 0; i < Tile::blocks_m; ++i)
        UNROLL for (int j = 0; j < Tile::blocks_n; ++j)
            UNROLL for (int half = 0; half < 2; ++half)
                UNROLL for (int low = 0; low < 2; ++low) {
                    const int row = warp_m * Tile::warp_m + i * 16 + low * 8 + lane / 4;
                    const int col = warp_n * Tile::warp_n + j * 16 + half * 8 + lane % 4 * 2;
                    const typename Tile::Sum* d = sums[i][j][half] + 2 * low;
                    using Two = typename Several<typename Tile::Sum>::Two;
                    *reinterpret_cast<Two*>(tile + row * (Tile::n + 8) + col) = {d[0], d[1]};
                }
    __syncthreads();
}

// y[pixel(row)][channel + col] = alpha * sum + beta * y (through the fused nodes), for rows with
// pixel(row) >= 0, col < cols. `channels` is the row length of y. Vectors of 8 when every row of y is made of
// whole vectors, else element by element.
template <class Elem, class Tile, class Pixel>
DEVICE void store_tile(const typename Tile::Sum* tile, Elem* y, Pixel pixel, int channel, int cols,
                       int channels, float alpha, float beta) {
    constexpr int chunks = Tile::n / 8;
    const bool vectors = channels % 8 == 0 && cols % 8 == 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < Tile::m * chunks; i += Tile::threads) {
        const int row = i / chunks, col = i % chunks * 8, at = pixel(row);
        if (at < 0 || col >= cols) continue;
        const auto* from = tile + row * (Tile::n + 8) + col;
        const i64 off = i64(at) * channels + channel + col;
        if (vectors) {
            float v[8];
            Vec<typename Tile::Sum, 8>::load(from).get(v);
            UNROLL for (int e = 0; e < 8; ++e) v[e] *= alpha;
            if (beta != 0.f) {
                float old[8];
                Vec<Elem, 8>::load(y + off).get(old);
                UNROLL for (int e = 0; e < 8; ++e) v[e] += beta * old[e];
            }
            fuse_epilogue(v, off, channel + col);
            Vec<Elem, 8>::of(v).store(y + off);
        } else {
            NO_UNROLL for (int e = 0; e < 8 && col + e < cols; ++e) {
                float v[1] = {alpha * from[e]};
                if (beta != 0.f) v[0] += beta * to_acc(y[off + e]);
                fuse_epilogue(v, off + e, channel + col + e);
                y[off + e] = from_acc<Elem>(v[0]);
            }
        }
    }
}

}  // namespace cydnn
