/*@kernel
name   = "conv_dgrad_scatter_{T}_{TILE}"
about  = """Data gradient in scatter form on CUDA cores: pixels of dy x (channel, tap), summed over filters, \
            each sum added atomically to the pixel of dx that it belongs to. Any strides, groups, dilation."""
T      = ["f32", "f64", "f16", "bf16"]
TILE   = ["t128x128", "t64x64", "t32x32"]
params = ["const T* dy", "const T* w", "Acc_T* sums", "Acc_T alpha", "int pixels", "int columns",
          "int filters", "int groups", "int flags", "int channel_inner",
          "Array<FastDiv, 3> out", "Array<FastDiv, 3> digit", "Array<int, 3> size", "Array<int, 3> stride",
          "Array<int, 3> pad", "Array<int, 3> dilation",
          "int64_t dy_n", "int64_t dy_group", "int dy_k", "Array<int64_t, 3> dy_s",
          "int64_t w_group", "int w_k", "int64_t w_c", "Array<int64_t, 3> w_s",
          "int64_t dx_n", "int64_t dx_group", "int64_t dx_c", "Array<int64_t, 3> dx_s"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * groups", 1, 1]
extra  = ["tiles_m", "tiles_n"]
needs  = ["pixels >= 1", "columns >= 1", "tiles_m * tiles_n * groups < 2147483648"]
problems = ["conv_dgrad n2c5h5w6 k7r3s2 pad1 stride2 {T}",
            "conv_dgrad n1c8h5w6 k8r3s3 {T} nhwc",
            "conv_dgrad n2c4h5w6 k8r1s1 {T}",
            "conv_dgrad n2c6h5w6 k10r3s3 dil2 pad2 groups=2 {T} nhwc",
            """conv_dgrad n2c3d3h4w5 k5t2r2s2 pre_pad=1,0,2 post_pad=0,2,1 stride=2,2,1 dilation=1,2,1 \
               mode=convolution {T}""",
            "conv_dgrad n1c{20 if TILE == 't32x32' else 60}h9w9 k10r3s2 pad1 groups=2 {T} nhwc",
            "conv_dgrad n1c4h4w5 k68r1s2 w=68x4x1x2:{T}@1,136,1,68 mode=convolution {T} nhwc",
            "conv_dgrad n1c4h4w5 k66r1s2 w=66x4x1x2:{T}@1,136,1,68 {T}", "conv_dgrad n1c4h4w5 k0r1s2 {T}"]
@*/
// A block makes one tile of the pixels of dy (n, o, p, q) x (channel, tap) of one group. w_s is negative
// and w begins at the last tap where the filter is flipped. `sums` is dx or an area like it.
#include "conv/gather_simt.cuh"

namespace cydnn {
struct alignas(8) Corner { i64 off; int z[3]; };
}

extern "C" __global__ __launch_bounds__(256, simt_blocks<T, TILE>()) void KERNEL(
    const T* dy, const T* w, acc_t<T>* sums, acc_t<T> alpha, int pixels, int columns, int filters, int groups,
    int flags, int channel_inner, Array<FastDiv, 3> out, Array<FastDiv, 3> digit, Array<int, 3> size,
    Array<int, 3> stride, Array<int, 3> pad, Array<int, 3> dilation, i64 dy_n, i64 dy_group, int dy_k,
    Array<i64, 3> dy_s, i64 w_group, int w_k, i64 w_c, Array<i64, 3> w_s, i64 dx_n, i64 dx_group, i64 dx_c,
    Array<i64, 3> dx_s) {
    using S = Simt<T, TILE>;
    __shared__ typename S::Shared tiles;
    __shared__ Taps taps;
    __shared__ Corner rows[S::m], cols[S::n];            // of the window in dx; of the tap from there

    const unsigned tiles_n = ceil_div(columns, S::n), tiles_m = ceil_div(pixels, S::m);
    const unsigned row0 = blockIdx.x / tiles_n % tiles_m * S::m, col0 = blockIdx.x % tiles_n * S::n;
    const int group = blockIdx.x / tiles_n / tiles_m;

    if (threadIdx.x < S::m) {
        int v[4];                                                  // q p o n
        digits_of(row0 + threadIdx.x, out[2], out[1], out[0], v);
        Corner corner = {v[3] * dx_n + group * dx_group, {}};
        UNROLL for (int i = 0; i < 3; ++i) {
            corner.z[i] = v[2 - i] * stride[i] - pad[i];
            corner.off += corner.z[i] * dx_s[i];
        }
        rows[threadIdx.x] = corner;
    }
    if (threadIdx.x < S::n) {
        int c, t[3];
        channel_and_tap(col0 + threadIdx.x, digit[0], digit[1], digit[2], channel_inner, c, t);
        Corner corner = {c * dx_c, {}};
        UNROLL for (int i = 0; i < 3; ++i)
            corner.z[i] = t[i] * dilation[i], corner.off += corner.z[i] * dx_s[i];
        cols[threadIdx.x] = corner;
    }
    const Place<S::m, S::k> py(flags & X_ALONG_DEPTH, int(threadIdx.x));
    const Place<S::n, S::k> pw(flags & W_ALONG_DEPTH, int(threadIdx.x));
    int here[3] = {}, v[4], c, t[3];                               // every pixel that exists is inside
    const Array<int, 3> one = {{1, 1, 1}};
    digits_of(row0 + py.row, out[2], out[1], out[0], v);
    dy += v[3] * dy_n + group * dy_group + v[2] * dy_s[0] + v[1] * dy_s[1] + v[0] * dy_s[2];
    if (row0 + py.row >= unsigned(pixels)) here[0] = NOWHERE;
    channel_and_tap(col0 + pw.row, digit[0], digit[1], digit[2], channel_inner, c, t);
    w += group * w_group + c * w_c + t[0] * w_s[0] + t[1] * w_s[1] + t[2] * w_s[2];
    const bool w_valid = col0 + pw.row < unsigned(columns);

    auto entry = [&](unsigned k, Tap& tap, int& plain) {
        tap = {int(k) * dy_k, {0, 0, 0}}, plain = int(k) * w_k;
    };
    typename S::Sum acc[S::FM][S::FN];
    gather_multiply<S, false, false>(tiles, taps, py, dy, here, one, pw, w, w_valid, flags, 0, filters, entry,
                                     acc);

    auto emit = [&](int row, int col, typename S::Sum sum) {
        if (row0 + row >= unsigned(pixels) || col0 + col >= unsigned(columns)) return;
        const Corner at = rows[row], by = cols[col];
        UNROLL for (int i = 0; i < 3; ++i) if (unsigned(at.z[i] + by.z[i]) >= unsigned(size[i])) return;
        atomicAdd(sums + at.off + by.off, alpha * sum);
    };
    S::drain(tiles, acc, flags & OUT_ALONG_ROWS, emit);
}
