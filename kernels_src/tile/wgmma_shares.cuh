// Tiles of several blocks: when everybody is done each of a tile's blocks adds a share of its units.
//
//   keep(d, parts, begins)  a warpgroup's part of a tile, the first of all
//   add_all(walk, write)    behind all products; write(slice, row, col) as in tile/wgmma_store.cuh
//
// A unit is what a warp hands out at once: 16 rows x 64 columns, 32 sums of each lane; unit = (group * slices
// + slice) * 4 + warp. Of fewer than 8 blocks a warp adds all parts of a unit, in their order. Of more each
// of the 8 warps adds every 8th part, and one of them what they have, in the order of the warps.
#pragma once
#include "lib/grid.cuh"
#include "tile/wgmma_store.cuh"
#include "tile/wgmma_walk.cuh"

namespace cydnn {

// at_once: parts on their way to a thread, 32 registers each.
template <class Tile, int at_once = 4> struct StreamShares {
    using Sum = typename Tile::Sum;
    using Four = typename Several<Sum>::Four;
    static constexpr int slices = Tile::group_n / 64, units = 8 * slices, warps = 8;
    unsigned char* out;                          // a slice of each warp
    int group;

    // Found anew: nothing of it takes a register through the products.
    static DEVICE int thread() {
        int x;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
        return x;
    }
    static DEVICE int warp() { return thread() / 32 - 4; }
    DEVICE SliceOf<Sum> slice_of(int warp) const { return {out + warp * (SLICE / 4)}; }

    // A block has two parts where its share ends one tile and begins another: that one lies further on.
    static DEVICE Four* part(const Stream<Tile>& parts, int block, bool begins) {
        const i64 at = block + (begins ? int(gridDim.x) : 0);
        return reinterpret_cast<Four*>(parts.sums + at * Tile::m * Tile::n) + thread() % 32;
    }

    DEVICE void keep(const Sum (&d)[Tile::sums], const Stream<Tile>& parts, bool begins) const {
        Four* to = part(parts, blockIdx.x, begins) + (group * slices * 4 + warp() % 4) * 256;
        UNROLL for (int s = 0; s < slices; ++s) UNROLL for (int q = 0; q < 8; ++q) {
            const Sum* v = d + 32 * s + 4 * q;
            to[s * 1024 + q * 32] = {v[0], v[1], v[2], v[3]};
        }
    }

    // Of a unit the parts from `from` on, every `step`-th; the tile's first block is `block`.
    DEVICE void add(Sum (&d)[32], const Stream<Tile>& parts, int unit, int block, int count, int from,
                    int step) const {
        const int lanes = parts.lanes.by;
        NO_UNROLL for (int p = from; p < count; p += at_once * step) {
            Four v[at_once][8];
            UNROLL for (int e = 0; e < at_once; ++e) {
                const int one = p + e * step;
                const Four* at = part(parts, block + one * lanes, one == 0) + unit * 256;
                if (one < count) UNROLL for (int q = 0; q < 8; ++q) v[e][q] = at[q * 32];
            }
            UNROLL for (int e = 0; e < at_once; ++e) if (p + e * step < count)
                UNROLL for (int q = 0; q < 8; ++q)
                    d[4 * q] += v[e][q].x, d[4 * q + 1] += v[e][q].y,
                    d[4 * q + 2] += v[e][q].z, d[4 * q + 3] += v[e][q].w;
        }
    }

    // What the warps have of a unit lies in their slices: `one` of them gets it all.
    DEVICE void add_warps(int one) const {
        const int lane = thread() % 32;
        asm volatile("bar.sync 3, 256;" ::: "memory");
        if (warp() == one) {
            Sum d[32] = {};
            NO_UNROLL for (int w = 0; w < warps; ++w) slice_of(w).add(d, lane);
            __syncwarp();
            slice_of(one).put(d, lane);
        }
        asm volatile("bar.sync 3, 256;" ::: "memory");
    }

    template <class Walk, class Write> DEVICE void add_all(Walk& walk, Write write) const {
        asm volatile("bar.sync 3, 256;" ::: "memory");
        if (threadIdx.x == 128) grid_hear(grid_tell());
        asm volatile("bar.sync 3, 256;" ::: "memory");
        const Stream<Tile>& parts = walk.parts;
        walk.begin_shared();
        NO_UNROLL while (walk.more()) if (walk.is_part()) {
            const int lanes = parts.lanes.by, from = walk.from(), first = from / parts.share;
            const int rank = parts.lanes.div(blockIdx.x) - first;
            const int count = (from + parts.all() - 1) / parts.share - first + 1;
            const bool is_alone = count < warps;
            const int each = is_alone ? warps : 1, block = blockIdx.x - rank * lanes;    // units at once
            NO_UNROLL for (int at = rank, round = 0; at < units; at += each * count, ++round) {
                const int unit = is_alone ? at + warp() * count : at;
                if (unit >= units) continue;
                Sum d[32] = {};
                add(d, parts, unit, block, count, is_alone ? 0 : warp(), is_alone ? 1 : warps);
                __syncwarp();                                    // what was there has been read
                slice_of(warp()).put(d, thread() % 32);
                __syncwarp();
                const int one = is_alone ? warp() : round % warps;
                if (!is_alone) add_warps(one);
                if (warp() != one) continue;
                __syncwarp();
                write(slice_of(one), slice_row<Tile>(unit / 4 / slices, unit % 4),
                      slice_col<Tile>(unit / 4 / slices, unit / 4 % slices));
            }
        }
    }
};

}  // namespace cydnn
