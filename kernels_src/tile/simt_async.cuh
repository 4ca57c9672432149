// The main loop of the tile program on CUDA cores whose operands are copied from memory to shared memory past
// the registers (cp.async), S::stages - 1 steps ahead.
//
//   AsyncPlace<S, Rows, Lanes>     what a thread copies of an operand's step: `row`, and depths `depth`,
//                                  depth + by, depth + 2 * by ...; DEPTHS: rows row, row + 32 ... of each
//   async_multiply<S>(tiles, steps, acc, copy)      copy(stage, step) issues the copies of a step
#pragma once
#include "lib/mma.cuh"
#include "tile/simt.cuh"

namespace cydnn {

// How lanes lie: along rows, one element or 16 bytes each; or 8 depths by 4 rows a warp, whose elements meet
// no bank of shared memory twice.
enum AsyncLanes { ROWS, ROW_QUARTETS, DEPTHS };

template <class S, int Rows, AsyncLanes Lanes> struct AsyncPlace {
    static constexpr int wide = Lanes == ROW_QUARTETS ? 4 : 1, across = Lanes == DEPTHS ? 8 : Rows / wide;
    static constexpr int by = Lanes == DEPTHS ? 8 : S::threads / across, count = S::k / by;    // of depths
    static constexpr int rows_by = S::threads / across, rows_count = Lanes == DEPTHS ? Rows / rows_by : 1;
    static_assert(by > 0 && S::k % by == 0, "a step must be whole passes of the block");
    static DEVICE int row(int t) { return Lanes == DEPTHS ? t / 8 : t % across * wide; }
    static DEVICE int depth(int t) { return Lanes == DEPTHS ? t % 8 : t / across; }
};

template <class S, class Copy>
DEVICE void async_multiply(typename S::Shared& tiles, int steps, typename S::Sum (&acc)[S::FM][S::FN],
                           Copy copy) {
    UNROLL for (int step = 0; step < S::stages - 1; ++step) {
        if (step < steps) copy(step, step);
        cp_async_commit();
    }
    int now = 0, next = S::stages - 1;
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        cp_async_wait<S::stages - 2>();
        __syncthreads();                                // what is copied next lies where all have multiplied
        if (step + S::stages - 1 < steps) copy(next, step + S::stages - 1);
        cp_async_commit();
        S::multiply(tiles, now, acc);
        now = now + 1 == S::stages ? 0 : now + 1, next = next + 1 == S::stages ? 0 : next + 1;
    }
    cp_async_wait<0>();
    __syncthreads();
}

}  // namespace cydnn
