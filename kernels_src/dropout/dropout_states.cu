/*@kernel
name   = "dropout_states"
about  = "The states of a generator that has drawn nothing."
params = ["int64_t* states", "Number<int64_t> seed"]
block  = [32, 1, 1]
grid   = [1, 1, 1]
problems = ["dropout_states states=2:i64"]
@*/
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(32) void KERNEL(int64_t* states, Number<int64_t> seed) {
    if (threadIdx.x < 2) states[threadIdx.x] = threadIdx.x == 0 ? seed.load() : 0;
}
