// The draws of dropout, which the states of a generator count.
//
//   next_draw(states, seen)   a Draw (lib/philox.cuh), for all threads of a block; `seen` is shared memory
//
// states: {seed, draws * 2^24 + blocks}. One addition counts a block and says how many draws came before;
// the last block of a launch takes the blocks away and counts the draw, so all have seen the same number.
#pragma once
#include "select.cuh"

namespace cydnn {

// One thread counts for its block.
DEVICE Draw next_draw(i64* states, unsigned long long (&seen)[2]) {
    constexpr unsigned long long one_draw = 1ull << 24;
    if (threadIdx.x == 0) {
        auto* counter = reinterpret_cast<unsigned long long*>(states + 1);
        const unsigned long long before = atomicAdd(counter, 1ull);
        if (before % one_draw == gridDim.x - 1) atomicAdd(counter, one_draw - gridDim.x);
        seen[0] = states[0], seen[1] = before / one_draw;
    }
    __syncthreads();
    return {seen[0], seen[1]};
}

}  // namespace cydnn
