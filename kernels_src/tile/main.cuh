// The main loop of kernels on the tile program for CUDA cores that take any type: two
// buffers, one barrier a step.
#pragma once
#include "tile/simt.cuh"

namespace cydnn {

// acc = the product of the depths [begin, end). ahead(buffer, first) leaves in shared memory what the loads
// of the step that begins at depth `first` need, a barrier earlier; load(buffer, first) brings this thread's
// share of a step into registers, store(buffer) puts it into the tiles.
template <class Program, class Ahead, class Load, class Store>
DEVICE void simt_main(typename Program::Shared& tiles, typename Program::Sum (&acc)[Program::FM][Program::FN],
                      int begin, int end, Ahead ahead, Load load, Store store) {
    Program::clear(acc);
    ahead(0, begin);
    __syncthreads();
    load(0, begin);
    ahead(1, begin + Program::k);
    store(0);
    __syncthreads();
    const int steps = ceil_div(end - begin, Program::k);
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const int now = step & 1, next = now ^ 1;
        const bool more = step + 1 < steps;
        if (more) load(next, begin + (step + 1) * Program::k);      // in flight while this step is multiplied
        Program::multiply(tiles, now, acc);
        if (more) {
            ahead(now, begin + (step + 2) * Program::k);     // what is `now` was last read before the barrier
            store(next);
        }
        __syncthreads();
    }
}

}  // namespace cydnn
