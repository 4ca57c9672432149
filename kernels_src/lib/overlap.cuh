// Launches that overlap (sm_90 and newer): the second of two starts while the first ends. Before, both are empty.
//
//   next_may_start()        in the first: once all its blocks have said so, blocks of the next launch take what room there is
//   wait_for_previous()     in the second: what the first has written can be read from here on
//
// Every block of the second waits before it writes, and before it reads anything but inputs of the whole operation. The host
// allows it: Launch(…, overlaps=True). A kernel that is the first of a chain never says next_may_start() before its own wait.
#pragma once
#include "types.cuh"

namespace cydnn {

// PTX ISA §griddepcontrol
DEVICE void next_may_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace cydnn
