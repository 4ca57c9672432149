/*@kernel
name   = "conv_fprop_index"
about  = "For every channel and tap of a group: where it lies from a window's corner in x, and in w."
params = ["int* to", "int depth", "int channel_inner", "Array<FastDiv, 3> digit", "Array<int, 3> dilation",
          "int x_c", "Array<int64_t, 3> x_s", "int w_c", "Array<int, 3> w_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(depth, 256)", 1, 1]
needs  = ["depth >= 1"]
problems = ["conv_fprop n1c70h5w6 k4r2s3 dil2 pad2 f32",
            "conv_fprop n1c3d4h6w9 k4t2r3s2 pad1 groups=1 mode=convolution f16 nhwc"]
@*/
// to[depth]: a Tap of conv/gather_simt.cuh (offset in x, then the tap's shift); behind all of them
// the offsets in w.
#include "conv/gather_simt.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int* to, int depth, int channel_inner, Array<FastDiv, 3> digit, Array<int, 3> dilation, int x_c,
    Array<i64, 3> x_s, int w_c, Array<int, 3> w_s) {
    const int k = blockIdx.x * 256 + threadIdx.x;
    if (k >= depth) return;
    int c, t[3];
    channel_and_tap(k, digit[0], digit[1], digit[2], channel_inner, c, t);
    Tap tap = {c * x_c, {}};
    int plain = c * w_c;
    UNROLL for (int i = 0; i < 3; ++i) {
        tap.z[i] = t[i] * dilation[i];
        tap.off += tap.z[i] * int(x_s[i]), plain += t[i] * w_s[i];
    }
    reinterpret_cast<Tap*>(to)[k] = tap;
    to[4 * depth + k] = plain;
}
