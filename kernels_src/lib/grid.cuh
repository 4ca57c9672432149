// Blocks of a cooperative launch that wait for each other.
//
//   grid_barrier()                     what any thread of the grid stored before it, all read behind it
//   const unsigned t = grid_arrive();  its two halves: work between them depends on nothing of other blocks
//   grid_wait(t);
//   const unsigned t = grid_tell();    the same of one thread, for all that have met at a barrier before it:
//   grid_hear(t);                      what it knows then, others know behind a barrier
//
// All threads of all blocks call the first three. The counter is the one that the driver gives every
// cooperative launch (cuda-13.0 cooperative_groups/details/driver_abi.h: the word behind the first of what
// %envreg1, %envreg2 point at): nothing has to be set to zero first. Its top bit flips when the last block
// arrives.
#pragma once
#include "types.cuh"

namespace cydnn {

DEVICE unsigned* grid_counter() {
    unsigned high, low;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    return reinterpret_cast<unsigned*>(((unsigned long long)high << 32 | low) + 4);
}

// PTX ISA §atom (.release.gpu): a barrier and this order the stores of all who met there.
DEVICE unsigned grid_tell() {
    unsigned old;
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    const bool is_first = (blockIdx.x | blockIdx.y | blockIdx.z) == 0;
    asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old) : "l"(grid_counter()), "r"(is_first ? 0x80000001u - blocks : 1u) : "memory");
    return old;
}

// PTX ISA §ld (.acquire.gpu)
DEVICE void grid_hear(unsigned old) {
    unsigned now;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(grid_counter()) : "memory");
    while (!((old ^ now) >> 31));
}

DEVICE unsigned grid_arrive() {
    __syncthreads();
    return threadIdx.x == 0 ? grid_tell() : 0;
}

DEVICE void grid_wait(unsigned old) {
    if (threadIdx.x == 0) grid_hear(old);
    __syncthreads();
}

DEVICE void grid_barrier() { grid_wait(grid_arrive()); }

}  // namespace cydnn
