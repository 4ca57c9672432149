/*@kernel
name   = "spatial_grid_fwd_any_{T}"
about  = "Coordinates of every point of a grid from the affine map of its image: a point a thread."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* theta", "T* grid", "int points", "FastDiv w", "FastDiv h"]
block  = [256, 1, 1]
grid   = ["ceil_div(points, 256)", 1, 1]
needs  = ["1 <= points < 2**31"]
problems = ["spatial_grid_fwd theta=3x2x3:{T} grid=3x17x13x2:{T}",
            "spatial_grid_fwd theta=2x2x3:{T} grid=2x1x5x2:{T}"]
@*/
#include "points.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* theta, T* grid, int points, FastDiv w, FastDiv h) {
    const unsigned point = blockIdx.x * 256 + threadIdx.x;
    if (point >= points) return;
    unsigned i, j;
    const unsigned n = h.divmod(w.divmod(point, j), i);
    const Acc_T x = w.by > 1 ? Acc_T(2 * j) / Acc_T(w.by - 1) - 1 : Acc_T(-1);
    const Acc_T y = h.by > 1 ? Acc_T(2 * i) / Acc_T(h.by - 1) - 1 : Acc_T(-1);
    theta += i64(n) * 6, grid += i64(point) * 2;
    Acc_T out[2];
    UNROLL for (int a = 0; a < 2; ++a)
        out[a] = to_acc(theta[3 * a]) * x + to_acc(theta[3 * a + 1]) * y + to_acc(theta[3 * a + 2]);
    grid[0] = from_acc<T>(out[0]), grid[1] = from_acc<T>(out[1]);
}
