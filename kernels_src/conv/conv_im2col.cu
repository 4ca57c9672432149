/*@kernel
name    = "conv_im2col_{T}_{VEC}"
about   = "The windows of an image as rows of a matrix, one for each output pixel; VEC channels at once."
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [1, 8]
when    = ["VEC == 1 or sizeof(T) == 2"]
params  = ["const T* x", "T* to", "int rows", "int depth", "int lanes_log", "int64_t row_step",
           "int channel_inner", "Array<FastDiv, 3> out", "Array<FastDiv, 3> digit", "Array<int, 3> size",
           "Array<int, 3> stride", "Array<int, 3> first", "Array<int, 3> step", "int64_t x_n",
           "int64_t x_group", "int64_t x_c", "Array<int64_t, 3> x_s"]
block   = [256, 1, 1]
grid    = ["ceil_div(rows, 8192 // 2 ** lanes_log)", "ceil_div(depth, 2 ** lanes_log * VEC)", "groups"]
extra   = ["groups"]
needs   = ["rows >= 1", "depth >= 1", "rows < 2147483616", "0 <= lanes_log and lanes_log <= 8"]
problems = ["conv_fprop n2c8h6w5 k8r3s3 pad1 stride2 {T} nhwc",
            "conv_fprop n2c3h6w5 k4r2s3 pad1 dil2 {T}",
            "conv_fprop n3c6h5w7 k4r3s3 groups=2 mode=convolution {T}",
            "conv_fprop n2c16h5w7 k8r1s1 groups=2 {T} nhwc",
            "conv_fprop n2c64h5w7 k8r3s3 pad1 {T} nhwc"]
@*/
// to[group][row][depth]: row is a pixel of the output (n, o, p, q), depth runs over channels and taps in the
// order of the filter's memory. A thread keeps its place in the depth and goes through 32 rows; of a block
// 2^lanes_log threads that follow each other write neighbours of a row.
#include "conv/gather_simt.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* to, int rows, int depth, int lanes_log, i64 row_step, int channel_inner,
    Array<FastDiv, 3> out, Array<FastDiv, 3> digit, Array<int, 3> size, Array<int, 3> stride,
    Array<int, 3> first, Array<int, 3> step, i64 x_n, i64 x_group, i64 x_c, Array<i64, 3> x_s) {
    const unsigned by = 256u >> lanes_log, lane = threadIdx.x & ((1u << lanes_log) - 1);
    const int k = ((blockIdx.y << lanes_log) + lane) * VEC;
    if (k >= depth) return;
    int channel, tap[3], z[3];
    channel_and_tap(k, digit[0], digit[1], digit[2], channel_inner, channel, tap);
    x += blockIdx.z * x_group + channel * x_c;
    UNROLL for (int i = 0; i < 3; ++i) z[i] = first[i] + tap[i] * step[i], x += z[i] * x_s[i];
    to += i64(blockIdx.z) * rows * row_step + k;
    const unsigned begin = blockIdx.x * 32 * by, end = min(begin + 32 * by, unsigned(rows));
    _Pragma("unroll 4") for (unsigned row = begin + (threadIdx.x >> lanes_log); row < end; row += by) {
        unsigned at[3], n = row;
        UNROLL for (int i = 2; i >= 0; --i) n = out[i].divmod(n, at[i]);
        i64 off = n * x_n;
        bool inside = true;
        UNROLL for (int i = 0; i < 3; ++i) {
            const int p = at[i] * stride[i];
            inside &= unsigned(p + z[i]) < unsigned(size[i]);
            off += p * x_s[i];
        }
        Vec<T, VEC> v = {};
        if (inside) v = Vec<T, VEC>::load_nc(x + off);
        v.store(to + i64(row) * row_step);
    }
}
