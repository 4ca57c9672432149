/*@kernel
name   = "conv_col2im_{T}"
about  = """dx[n, c, pixel] = the sum of what its taps have in a matrix of windows, in their order: the \
            transpose of conv_im2col."""
T      = ["f64", "f32", "f16", "bf16"]
params = ["const Acc_T* windows", "T* dx", "Acc_T beta", "int pixels", "int channels", "int64_t row_step",
          "int first", "Array<int, 3> tap_step", "int channel_step", "Array<FastDiv, 3> size",
          "Array<FastDiv, 3> stride", "Array<int, 3> every", "Array<int, 3> dy_size", "Array<int, 3> taps",
          "Array<int, 3> pad", "Array<int, 3> dilation", "int64_t dx_n", "int64_t dx_c",
          "Array<int64_t, 3> dx_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(pixels, 256)", "channels", 1]
needs  = ["pixels >= 1", "pixels < 2147483392", "1 <= channels and channels <= 65535"]
problems = ["conv_dgrad n2c3h7w9 k8r3s3 pad1 stride2 {T} nhwc",
            "conv_dgrad n1c2d3h5w6 k8t2r1s3 pre_pad=1,0,2 post_pad=0,2,1 stride=2,1,3 dilation=1,2,1 {T}",
            "conv_dgrad n3c3h6w5 k4r2s3 mode=convolution {T} nhwc"]
@*/
// windows[depth][pixel of dy], depth = first + tap * tap_step + channel * channel_step: what the tap adds to
// the pixel of dx that it reads. A thread makes a pixel of dx: h gets tap r of p where h + pad = p * stride +
// r * dilation: a first one and each `every`-th from it on, stride / gcd(stride, dilation). Lanes go along
// w, so that they read neighbours.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const acc_t<T>* windows, T* dx, acc_t<T> beta, int pixels, int channels, i64 row_step, int first,
    Array<int, 3> tap_step, int channel_step, Array<FastDiv, 3> size, Array<FastDiv, 3> stride,
    Array<int, 3> every, Array<int, 3> dy_size, Array<int, 3> taps, Array<int, 3> pad,
    Array<int, 3> dilation, i64 dx_n, i64 dx_c, Array<i64, 3> dx_s) {
    const unsigned pixel = blockIdx.x * 256u + threadIdx.x;
    if (pixel >= unsigned(pixels)) return;
    unsigned at[3], n = pixel;
    UNROLL for (int d = 2; d >= 0; --d) n = size[d].divmod(n, at[d]);
    // Of a dim: the first tap that comes from a pixel of dy and what is behind the last, that pixel, and how
    // far the next one's is.
    int tap[3], end[3], from[3], back[3];
    UNROLL for (int d = 0; d < 3; ++d) {
        const int by = stride[d].by, more = ceil_div((taps[d] - 1) * dilation[d], by);   // none is below 0
        int x = int(at[d]) + pad[d] + more * by;
        unsigned rest = 1;
        tap[d] = end[d] = taps[d], from[d] = 0, back[d] = every[d] * dilation[d] / by;
        for (int t = 0; t < min(every[d], taps[d]) && rest; ++t, x -= dilation[d]) {
            const int p = stride[d].divmod(x, rest);
            if (rest == 0) tap[d] = t, from[d] = p - more;
        }
        const int outside = from[d] - (dy_size[d] - 1);
        if (outside > 0) {
            const int steps = ceil_div(outside, back[d]);
            tap[d] = min(tap[d] + i64(steps) * every[d], i64(taps[d])), from[d] -= steps * back[d];
        }
        end[d] = from[d] < 0 ? tap[d] : min(i64(taps[d]), tap[d] + i64(from[d] / back[d]) * every[d] + 1);
    }
    windows += (first + int(blockIdx.y) * channel_step) * row_step;
    acc_t<T> sum = 0;
    for (int t = tap[0], o = from[0]; t < end[0]; t += every[0], o -= back[0])
        for (int r = tap[1], p = from[1]; r < end[1]; r += every[1], p -= back[1]) {
            const i64 row = ((i64(n) * dy_size[0] + o) * dy_size[1] + p) * dy_size[2];
            const auto* line = windows + row + (t * tap_step[0] + r * tap_step[1]) * row_step;
            for (int s = tap[2], q = from[2]; s < end[2]; s += every[2], q -= back[2])
                sum += line[s * tap_step[2] * row_step + q];
        }
    T* to = dx + n * dx_n + i64(blockIdx.y) * dx_c;
    UNROLL for (int d = 0; d < 3; ++d) to += at[d] * dx_s[d];
    *to = from_acc<T>(beta != 0 ? sum + beta * to_acc(*to) : sum);
}
