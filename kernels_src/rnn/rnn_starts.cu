/*@kernel
name    = "rnn_starts"
about   = "Writes numbers of the host to memory: where the rows of each time of a shrinking batch begin."
targets = ["sm_75"]
params  = ["int* starts", "int first", "int count", "Array<int, 512> values"]
block   = [512, 1, 1]
grid    = [1, 1, 1]
needs   = ["1 <= count", "count <= 512"]
problems = ["rnn_fwd t3n4i3 cell=tanh hidden=3 batches=4,3,2 f32"]
@*/
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(512) void KERNEL(int* starts, int first, int count,
                                                         Array<int, 512> values) {
    if (threadIdx.x < count) starts[first + threadIdx.x] = values.v[threadIdx.x];
}
