/*@kernel
name   = "signal_flag_{MODE}"
about  = "A flag in memory is set, or waited for, by one thread."
MODE   = ["set", "wait"]
params = ["int* flag", "int value"]
block  = [32, 1, 1]
grid   = [1, 1, 1]
problems = ["signal x=3x40:f32 flag=1:i32 mode={MODE} value=7"]
@*/
// Launches of one stream follow each other: the tensor is there before the launch that sets, and is read
// behind the one that waits. Others see it by the scope of the system.
#include "lib/types.cuh"

constexpr int MODE_set = 0, MODE_wait = 1;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

extern "C" __global__ __launch_bounds__(32) void KERNEL(int* flag, int value) {
    if (threadIdx.x) return;
    if constexpr (JOIN(MODE_, MODE) == MODE_set) {
        // PTX ISA §fence, §st (.release.sys)
        asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)), "r"(value)
                     : "memory");
    } else {
        int now;
        // PTX ISA §ld (.acquire.sys)
        do asm volatile("ld.acquire.sys.global.s32 %0, [%1];"
                        : "=r"(now) : "l"(__cvta_generic_to_global(flag)) : "memory");
        while (now != value);
    }
}
