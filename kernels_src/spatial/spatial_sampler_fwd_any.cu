/*@kernel
name   = "spatial_sampler_fwd_any_{T}"
about  = "Bilinear sampling on any strides: a thread has a point and up to four channels."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* x", "const T* grid", "T* y", "Acc_T alpha", "Acc_T beta", "int items", "FastDiv inner",
          "int channels_inner", "int channels", "int chunks", "FastDiv w", "FastDiv h", "int width",
          "int height", "Array<int64_t, 4> x_strides", "Array<int64_t, 4> y_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
problems = ["spatial_sampler_fwd x=2x5x7x6:{T} grid=2x9x5x2:{T}",
            "spatial_sampler_fwd x=2x19x7x6:{T}@nhwc grid=2x9x5x2:{T} y=2x19x9x5:{T}@nhwc",
            "spatial_sampler_fwd x=1x3x1x6:{T}@40,12,9,1 grid=1x4x5x2:{T} y=1x3x4x5:{T}@99,31,6,1"]
@*/
#include "points.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* grid, T* y, Acc_T alpha, Acc_T beta, int items, FastDiv inner, int channels_inner,
    int channels, int chunks, FastDiv w, FastDiv h, int width, int height, Array<i64, 4> x_strides,
    Array<i64, 4> y_strides) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    const Places at = place_of(item, inner, channels_inner);
    unsigned i, j;
    const unsigned n = h.divmod(w.divmod(at.place, j), i);
    const Point<Acc_T> p(wide(grid[i64(at.place) * 2]), wide(grid[i64(at.place) * 2 + 1]), width, height);
    x += n * x_strides[0] + p.y * x_strides[2] + p.x * x_strides[3];
    y += n * y_strides[0] + i * y_strides[2] + j * y_strides[3];
    Acc_T sum[4] = {};
    UNROLL for (int corner = 0; corner < 4; ++corner) {
        const int right = corner % 2, below = corner / 2;
        if (!p.inside(right, below)) continue;
        const Acc_T weight = p.weight(right, below);
        const T* from = x + below * x_strides[2] + right * x_strides[3];
        UNROLL for (int k = 0; k < 4; ++k)
            if (const int c = at.chunk + k * chunks; c < channels)
                sum[k] += weight * to_acc(from[c * x_strides[1]]);
    }
    UNROLL for (int k = 0; k < 4; ++k)
        if (const int c = at.chunk + k * chunks; c < channels) {
            T* to = y + c * y_strides[1];
            *to = from_acc<T>(blend(alpha, sum[k], beta, to));
        }
}
