/*@kernel
name   = "conv_blend_{T}"
about  = """y = alpha * sums + beta * y, around sums that are added atomically; without sums, y = beta * y, \
            or NaN where alpha is."""
T      = ["f32", "f64", "f16", "bf16"]
params = ["const Acc_T* sums", "T* y", "Acc_T alpha", "Acc_T beta", "int count", "Array<FastDiv, 4> size",
          "Array<int64_t, 5> y_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1"]
problems = ["conv_wgrad n2c3h6w5 k4r3s2 pad1 {T} nhwc",
            "conv_dgrad n2c3d3h6w5 k4t2r3s2 pad1 {T}"]
@*/
// `size` and y_s: the dims of y, the fastest in memory first, in which order the sums are packed; the last
// dim is what is left.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const acc_t<T>* sums, T* y, acc_t<T> alpha, acc_t<T> beta, int count, Array<FastDiv, 4> size,
    Array<i64, 5> y_s) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned rest = i, digit;
    i64 off = 0;
    UNROLL for (int d = 0; d < 4; ++d) rest = size[d].divmod(rest, digit), off += digit * y_s[d];
    y += off + rest * y_s[4];
    const acc_t<T> factor = sums || alpha != alpha ? alpha : 0;
    *y = from_acc<T>(blend(factor, sums ? sums[i] : acc_t<T>(0), beta, y));
}
