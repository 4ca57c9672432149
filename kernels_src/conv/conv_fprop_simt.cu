/*@kernel
name   = "conv_fprop_simt_{T}_{TILE}_{FORM}"
about  = """Convolution as implicit GEMM on CUDA cores: pixels x filters, summed over channels and taps. \
            Any strides, groups, dilation. FORM: whether what belongs to a depth is computed or \
            looked up."""
T      = ["f32", "f64", "f16", "bf16"]
TILE   = ["t128x128", "t128x64", "t64x64", "t32x32"]
FORM   = ["computed", "indexed"]
params = ["const T* x", "const T* w", "T* y", "Acc_T alpha", "Acc_T beta",
          "int pixels", "int filters", "int depth", "int flags", "int channel_inner",
          "Array<FastDiv, 3> out", "Array<FastDiv, 3> digit", "Array<int, 3> size", "Array<int, 3> stride",
          "Array<int, 3> pad", "Array<int, 3> dilation",
          "int64_t x_n", "int64_t x_group", "int x_c", "Array<int64_t, 3> x_s",
          "int64_t w_n", "int64_t w_group", "int w_c", "Array<int, 3> w_s",
          "int64_t y_n", "int64_t y_c", "Array<int64_t, 3> y_s", "const int* index",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * groups", 1, 1]
extra  = ["tiles_m", "tiles_n", "groups"]
needs  = ["pixels >= 1", "filters >= 1", "tiles_m * tiles_n * groups < 2147483648"]
marks  = ["epilogue"]
problems = ["conv_fprop n2c5h5w6 k7r3s2 pad1 stride2 {T}",
            "conv_fprop n1c8h5w6 k8r3s3 {T} nhwc",
            "conv_fprop n2c4h5w6 k8r1s1 {T}",
            "conv_fprop n2c6h5w6 k10r3s3 dil2 pad2 groups=2 {T} nhwc",
            """conv_fprop n2c3d4h5w6 k5t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 stride=2,1,3 dilation=1,2,1 \
               mode=convolution {T}""",
            "conv_fprop n2c10h9w9 k{80 if TILE == 't32x32' else 264}r3s2 pad1 groups=2 {T} nhwc"]
@*/
// A block makes one tile of pixels (n, o, p, q) x filters of one group. Blocks of the same pixels are
// neighbours, so that x is read once from memory. `pixels`, `filters` (of a group) and `depth`
// (channels of a group x taps) are the GEMM's sizes; w_s is negative and w begins at the last tap
// where the filter is flipped. `index` (indexed): what conv_fprop_index writes.
#include "conv/gather_simt.cuh"
#include "lib/epilogue.cuh"

namespace cydnn {
enum FpropForm { computed, indexed };
}

extern "C" __global__ __launch_bounds__(256, simt_blocks<T, TILE>()) void KERNEL(
    const T* x, const T* w, T* y, acc_t<T> alpha, acc_t<T> beta, int pixels, int filters, int depth,
    int flags, int channel_inner, Array<FastDiv, 3> out, Array<FastDiv, 3> digit, Array<int, 3> size,
    Array<int, 3> stride, Array<int, 3> pad, Array<int, 3> dilation, i64 x_n, i64 x_group, int x_c,
    Array<i64, 3> x_s, i64 w_n, i64 w_group, int w_c, Array<int, 3> w_s, i64 y_n, i64 y_c, Array<i64, 3> y_s,
    const int* index, Fuse fuse) {
    using S = Simt<T, TILE>;
    __shared__ typename S::Shared tiles;
    __shared__ Taps taps;
    __shared__ i64 y_off[S::m];

    const unsigned tiles_n = ceil_div(filters, S::n), tiles_m = ceil_div(pixels, S::m);
    const unsigned row0 = blockIdx.x / tiles_n % tiles_m * S::m, group = blockIdx.x / tiles_n / tiles_m;
    const int col0 = blockIdx.x % tiles_n * S::n;

    if (threadIdx.x < S::m) {                                      // where the tile's pixels are stored
        int v[4];                                                  // q p o n
        digits_of(row0 + threadIdx.x, out[2], out[1], out[0], v);
        y_off[threadIdx.x] = v[3] * y_n + v[2] * y_s[0] + v[1] * y_s[1] + v[0] * y_s[2];
    }
    const Place<S::m, S::k> px(flags & X_ALONG_DEPTH, int(threadIdx.x));
    const Place<S::n, S::k> pw(flags & W_ALONG_DEPTH, int(threadIdx.x));
    int z[3];                                                    // the window's corner of this thread's pixel
    {
        int v[4];
        digits_of(row0 + px.row, out[2], out[1], out[0], v);
        x += v[3] * x_n + group * x_group;
        UNROLL for (int i = 0; i < 3; ++i) z[i] = v[2 - i] * stride[i] - pad[i], x += z[i] * x_s[i];
        if (row0 + px.row >= unsigned(pixels)) z[0] = NOWHERE;
    }
    const bool w_valid = col0 + pw.row < filters;
    w += group * w_group + (col0 + pw.row) * w_n;

    auto entry = [&](unsigned k, Tap& tap, int& plain) {
        if constexpr (FORM == indexed) {
            tap = reinterpret_cast<const Tap*>(index)[k], plain = index[4 * depth + int(k)];
            const int next = k + TABLE;
            if (next < depth) prefetch(index + 4 * next), prefetch(index + 4 * depth + next);
            return;
        }
        int c, t[3];
        channel_and_tap(k, digit[0], digit[1], digit[2], channel_inner, c, t);
        tap.off = c * x_c, plain = c * w_c;
        UNROLL for (int i = 0; i < 3; ++i) {
            tap.z[i] = t[i] * dilation[i];
            tap.off += tap.z[i] * int(x_s[i]), plain += t[i] * w_s[i];
        }
    };
    // No code for empty sums; other types spill registers then.
    if (sizeof(T) == 8) __builtin_assume(ceil_div(depth, S::k) > 0);
    typename S::Sum acc[S::FM][S::FN];
    gather_multiply<S, false, false>(tiles, taps, px, x, z, size, pw, w, w_valid, flags, 0, depth, entry,
                                     acc);

    auto emit = [&](int row, int col, typename S::Sum sum) {
        if (row0 + row >= unsigned(pixels) || col0 + col >= filters) return;
        const int channel = group * filters + col0 + col;
        const i64 off = y_off[row] + channel * y_c;
        typename S::Sum v[1] = {blend(alpha, sum, beta, y + off)};
        fuse_epilogue(v, off, channel);
        y[off] = from_acc<T>(v[0]);
    };
    S::drain(tiles, acc, flags & OUT_ALONG_ROWS, emit);
}
