// Softmax over a strided dim whose channels are all held in registers: how a block is cut.
//
// LANES threads side by side take neighbouring positions, 4 bytes each; GROUPS of them share the channels of
// these positions, HELD each; TILES such teams that have nothing in common make a block of 128 threads.
#pragma once
#include "row.cuh"

namespace cydnn {

template <int Lanes, int Groups, int Tiles> struct Columns {
    static constexpr int threads = Lanes * Groups * Tiles, warps = Lanes * Groups / 32;
    static_assert(Groups == 1 || Tiles == 1, "Columns: a team that meets is the whole block");
    int lane, group, tile;
    DEVICE Columns() : lane(threadIdx.x % Lanes), group(threadIdx.x / Lanes % Groups),
                       tile(blockIdx.x * Tiles + threadIdx.x / (Lanes * Groups)) {}
    DEVICE int position() const { return tile * Lanes + lane; }

    // The parts of all groups, merged in the same order in all threads of a position; `room` is used once in
    // a kernel. Threads of a warp that share a position read what is in it by turns.
    template <class Value, int Vec, class Op>
    DEVICE void merge(Value (&mine)[Vec], Value (*room)[Lanes][Vec], Op op) const {
        if constexpr (Groups > 1) {
            constexpr int shares = 32 / Lanes;
            static_assert(warps % shares == 0, "Columns: each thread of a position reads as many parts");
            const int warp = threadIdx.x / 32, share = threadIdx.x % 32 / Lanes;
            meet(mine, op);
            if (share == 0) UNROLL for (int j = 0; j < Vec; ++j) room[warp][lane][j] = mine[j];
            __syncthreads();
            UNROLL for (int j = 0; j < Vec; ++j) mine[j] = room[share][lane][j];
            UNROLL for (int w = shares; w < warps; w += shares)
                UNROLL for (int j = 0; j < Vec; ++j) mine[j] = op(mine[j], room[share + w][lane][j]);
            meet(mine, op);
        }
    }
    // The threads of a warp that share a position.
    template <class Value, int Vec, class Op> DEVICE void meet(Value (&mine)[Vec], Op op) const {
        UNROLL for (int far = Lanes; far < 32; far *= 2)
            UNROLL for (int j = 0; j < Vec; ++j) mine[j] = op(mine[j], shuffle_xor(mine[j], far));
    }
};

}  // namespace cydnn
