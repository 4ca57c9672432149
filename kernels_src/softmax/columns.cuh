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

    // The parts of all groups, merged in their order; `room` is used once in a kernel.
    template <class Value, int Vec, class Op>
    DEVICE void merge(Value (&mine)[Vec], Value (*room)[Lanes][Vec], Op op) const {
        if constexpr (Groups > 1) {
            if constexpr (Lanes == 16)
                UNROLL for (int j = 0; j < Vec; ++j) mine[j] = op(mine[j], shuffle_xor(mine[j], 16));
            const int warp = threadIdx.x / 32;
            if (threadIdx.x % 32 < Lanes) UNROLL for (int j = 0; j < Vec; ++j) room[warp][lane][j] = mine[j];
            __syncthreads();
            UNROLL for (int j = 0; j < Vec; ++j) mine[j] = room[0][lane][j];
            UNROLL for (int w = 1; w < warps; ++w)
                UNROLL for (int j = 0; j < Vec; ++j) mine[j] = op(mine[j], room[w][lane][j]);
        }
    }
};

}  // namespace cydnn
