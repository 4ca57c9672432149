/*@kernel
name   = "conv_wgrad_index"
about  = "For every pixel of an image of dy: where its window begins in x, and where it lies in dy."
params = ["int* to", "int pixels", "Array<FastDiv, 3> out", "Array<int, 3> stride", "Array<int, 3> pad",
          "Array<int64_t, 3> x_s", "Array<int64_t, 3> dy_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(pixels, 256)", 1, 1]
needs  = ["pixels >= 1"]
problems = ["conv_wgrad n2c3h6w5 k4r3s2 pad1 f32",
            "conv_wgrad n1c3d4h6w19 k4t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 stride=1,2,1 f16 nhwc"]
@*/
// to[pixel]: a Tap of conv/gather_simt.cuh (offset in x, then the window's corner); behind all of them
// the offsets in dy.
#include "conv/gather_simt.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int* to, int pixels, Array<FastDiv, 3> out, Array<int, 3> stride, Array<int, 3> pad, Array<i64, 3> x_s,
    Array<i64, 3> dy_s) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= pixels) return;
    int v[4], plain = 0;                                           // q p o
    digits_of(i, out[2], out[1], out[0], v);
    Tap tap = {};
    UNROLL for (int d = 0; d < 3; ++d) {
        tap.z[d] = v[2 - d] * stride[d] - pad[d];
        tap.off += tap.z[d] * int(x_s[d]), plain += v[2 - d] * int(dy_s[d]);
    }
    reinterpret_cast<Tap*>(to)[i] = tap;
    to[4 * pixels + i] = plain;
}
