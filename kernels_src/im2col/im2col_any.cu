/*@kernel
name    = "im2col_any_{T}"
about   = "The windows of images as columns of a matrix: a thread has one column and eight rows."
T       = ["f64", "f32", "f16", "bf16"]
params  = ["const T* x", "T* col", "int columns", "int rows", "Array<FastDiv, 3> out",
           "Array<FastDiv, 3> taps", "Array<int, 3> size", "Array<int, 3> stride", "Array<int, 3> first",
           "Array<int, 3> step", "int64_t x_n", "int64_t x_c", "Array<int64_t, 3> x_s",
           "int64_t row_step", "int64_t column_step"]
block   = [256, 1, 1]
grid    = ["ceil_div(columns, 256)", "ceil_div(rows, 8)", 1]
needs   = ["1 <= columns < 2**31 - 256", "1 <= rows <= 8 * 65535"]
problems = ["im2col n2c3h7w6 window=3 pre_pad=1 stride=2 {T}",
            "im2col x=2x3x4x5x6:{T}@nhwc window=2,3,2 pre_pad=1,0,1 dilation=1,2,1 mode=convolution",
            "im2col x=3x5x9:{T}@60,11,1 col=10x27:{T}@1,13 window=2 post_pad=1"]
@*/
// Rows are (c, taps), columns (n, out), the last of each innermost; tap t of dim i reads
// out * stride + first + t * step.
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* col, int columns, int rows, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> size, Array<int, 3> stride, Array<int, 3> first, Array<int, 3> step, i64 x_n, i64 x_c,
    Array<i64, 3> x_s, i64 row_step, i64 column_step) {
    const unsigned column = blockIdx.x * 256 + threadIdx.x;
    if (column >= columns) return;
    unsigned n = column;
    int corner[3];
    UNROLL for (int i = 2; i >= 0; --i) {
        unsigned at;
        n = out[i].divmod(n, at);
        corner[i] = int(at) * stride[i] + first[i];
    }
    x += n * x_n, col += column * column_step;
    const int begin = blockIdx.y * 8, end = min(begin + 8, rows);
    UNROLL for (int k = 0; k < 8; ++k) {
        const int row = begin + k;
        if (row >= end) break;
        unsigned c = row;
        i64 off = 0;
        bool inside = true;
        UNROLL for (int i = 2; i >= 0; --i) {
            unsigned tap;
            c = taps[i].divmod(c, tap);
            const int z = corner[i] + int(tap) * step[i];
            inside &= unsigned(z) < unsigned(size[i]);
            off += z * x_s[i];
        }
        col[row * row_step] = inside ? x[c * x_c + off] : from_acc<T>(Acc_T(0));
    }
}
