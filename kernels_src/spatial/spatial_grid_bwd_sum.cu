/*@kernel
name   = "spatial_grid_bwd_sum_{T}"
about  = "dtheta from the sums over parts, added in their order: a thread an element."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const Acc_T* part", "T* dtheta", "int images", "int splits"]
block  = [128, 1, 1]
grid   = ["ceil_div(images * 6, 128)", 1, 1]
needs  = ["1 <= images < 65536", "splits >= 1"]
problems = ["spatial_grid_bwd dgrid=1x71x83x2:{T}", "spatial_grid_bwd dgrid=2x200x201x2:{T}"]
@*/
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const Acc_T* part, T* dtheta, int images, int splits) {
    const int at = blockIdx.x * 128 + threadIdx.x, n = at / 6;
    if (n >= images) return;
    part += i64(n) * splits * 6 + at % 6;
    Acc_T sum = 0;
    _Pragma("unroll 16") for (int k = 0; k < splits; ++k) sum += part[i64(k) * 6];
    dtheta[at] = from_acc<T>(sum);
}
