/*@kernel
name    = "sdpa_bwd_fp8_widen_{T}"
about   = """Operands of 8 bits for the gradients of attention, as bf16, which holds their values: heads one \
             behind the other."""
T       = ["f8_e4m3", "f8_e5m2"]
targets = ["sm_90a"]
params  = ["const T* x", "bf16* y", "int batches", "int heads", "int rows", "int depth",
           "Array<int64_t, 3> x_steps"]
block   = [256, 1, 1]
grid    = ["ceil_div(rows, 32) * batches * heads", 1, 1]
needs   = ["1 <= rows <= 268435456", "depth % 16 == 0", "16 <= depth <= 128",
           "ceil_div(rows, 32) * batches * heads < 2147483648"]
problems = [
    """sdpa_bwd q=2x2x35x48:{T} k=2x1x48x16:{T}@768,768,1,48 v=2x1x16x16:{T} o=2x2x35x16:{T} \
       do=2x2x35x16:{T} stats=2x2x35x1:f32 dq=2x2x35x48:f32 dk=2x1x48x16:f32@768,768,1,48 dv=2x1x16x16:f32"""]
@*/
// 8 threads have a row, each 16 elements of it.
#include "fp8.cuh"
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(const T* x, bf16* y, int batches, int heads,
                                                         int rows, int depth, Array<i64, 3> x_steps) {
    const int tiles = ceil_div(rows, 32), n = blockIdx.x / tiles, batch = n / heads, head = n - batch * heads;
    const int row = (blockIdx.x - n * tiles) * 32 + threadIdx.x / 8, column = threadIdx.x % 8 * 16;
    if (row >= rows || column >= depth) return;
    const i64 from = batch * x_steps[0] + head * x_steps[1] + row * x_steps[2] + column;
    Eights<T>::load(x + from).widen(y + (i64(n) * rows + row) * depth + column);
}
