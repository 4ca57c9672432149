/*@kernel
name   = "conv_dgrad_simt_{T}_{TILE}"
about  = """Data gradient as implicit GEMM on CUDA cores, in gather form, one class of pixels (modulo the \
            stride) a block. Any strides, groups, dilation."""
T      = ["f32", "f64", "f16", "bf16"]
TILE   = ["t128x128", "t128x64", "t64x64", "t32x32"]
params = ["const T* dy", "const T* w", "T* dx", "Acc_T alpha", "Acc_T beta",
          "int images", "int channels", "int filters", "int flags", "int channel_inner",
          "int tiles_m", "int tiles_n",
          "Array<int, 3> classes", "Array<int, 3> size", "Array<int, 3> dy_size", "Array<int, 3> taps",
          "Array<int, 3> stride", "Array<int, 3> pad", "Array<int, 3> dilation",
          "Array<int, 3> tap_step", "Array<int, 3> z_step",
          "int64_t dy_n", "int64_t dy_group", "int dy_k", "Array<int64_t, 3> dy_s",
          "int64_t w_c", "int64_t w_group", "int w_k", "Array<int, 3> w_s",
          "int64_t dx_n", "int64_t dx_c", "Array<int64_t, 3> dx_s", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * classes[0] * classes[1] * classes[2] * groups", 1, 1]
extra  = ["groups"]
needs  = ["images >= 1", "channels >= 1",
          "tiles_m * tiles_n * classes[0] * classes[1] * classes[2] * groups < 2147483648"]
marks  = ["epilogue"]
problems = ["conv_dgrad n2c5h5w6 k7r3s2 pad1 stride2 {T}",
            "conv_dgrad n1c8h5w6 k8r3s3 {T} nhwc",
            "conv_dgrad n2c4h5w6 k8r1s1 {T}",
            "conv_dgrad n2c6h5w6 k10r3s3 dil2 pad2 groups=2 {T} nhwc",
            """conv_dgrad n2c3d3h4w5 k5t2r2s2 pre_pad=1,0,2 post_pad=0,2,1 stride=2,2,1 dilation=1,2,1 \
               mode=convolution {T}""",
            "conv_dgrad n2c{80 if TILE == 't32x32' else 264}h9w9 k10r3s2 pad1 groups=2 {T} nhwc"]
@*/
// Pixels h of dx with the same h % stride form a class, and all of them meet the same taps r: those with
// (h + pad - r*dilation) % stride == 0, that is r = tap0 + i * tap_step with
// tap_step = stride / gcd(stride, dilation).
// Within a class, dx is a convolution of stride 1: pixel h = first + stride*h' reads dy at
// h' + (first + pad - tap0*dilation) / stride - i * z_step, z_step = dilation / gcd. A block makes one tile
// of the pixels of one class x channels of one group; tiles_m is that of the largest class. A class without
// taps writes beta * dx.
#include "conv/gather_simt.cuh"
#include "lib/epilogue.cuh"

namespace cydnn {
struct PixelClass { int first, count, taps, tap0, start; };                // of one dim
}

extern "C" __global__ __launch_bounds__(256, simt_blocks<T, TILE>()) void KERNEL(
    const T* dy, const T* w, T* dx, acc_t<T> alpha, acc_t<T> beta, int images, int channels, int filters,
    int flags, int channel_inner, int tiles_m, int tiles_n, Array<int, 3> classes, Array<int, 3> size,
    Array<int, 3> dy_size, Array<int, 3> taps, Array<int, 3> stride, Array<int, 3> pad,
    Array<int, 3> dilation, Array<int, 3> tap_step, Array<int, 3> z_step, i64 dy_n, i64 dy_group, int dy_k,
    Array<i64, 3> dy_s, i64 w_c, i64 w_group, int w_k, Array<int, 3> w_s, i64 dx_n, i64 dx_c,
    Array<i64, 3> dx_s, Fuse fuse) {
    using S = Simt<T, TILE>;
    __shared__ typename S::Shared tiles;
    __shared__ Taps table;
    __shared__ i64 dx_off[S::m];
    __shared__ PixelClass cls[3];
    __shared__ FastDiv out[3], digit[3];

    unsigned block = blockIdx.x;
    const int col0 = block % tiles_n * S::n;
    block /= tiles_n;
    const unsigned row0 = block % tiles_m * S::m;
    block /= tiles_m;
    if (threadIdx.x < 3) {                                         // one dim a thread: which class is this?
        const int i = threadIdx.x;
        unsigned mine = block;
        UNROLL for (int j = 2; j > 0; --j) mine /= j > i ? classes[j] : 1;
        PixelClass c;
        c.first = mine % classes.v[i], c.tap0 = 0;
        const int reach = c.first + pad.v[i];
        while (c.tap0 < tap_step.v[i] && (reach - c.tap0 * dilation.v[i]) % stride.v[i] != 0) ++c.tap0;
        const bool has_taps = c.tap0 < tap_step.v[i] && c.tap0 < taps.v[i];
        c.taps = has_taps ? ceil_div(taps.v[i] - c.tap0, tap_step.v[i]) : 0;
        c.count = ceil_div(size.v[i] - c.first, stride.v[i]);
        c.start = (reach - c.tap0 * dilation.v[i]) / stride.v[i];
        cls[i] = c;
        out[i] = fastdiv(c.count);
    }
    const unsigned group = block / (classes[0] * classes[1] * classes[2]);
    __syncthreads();
    if (threadIdx.x < 3) {                                       // the three fastest digits of channel x taps
        const int d = threadIdx.x;
        const int radix = channel_inner ? (d == 0 ? filters : cls[3 - d].taps) : cls[2 - d].taps;
        digit[d] = fastdiv(max(radix, 1));
    }
    __syncthreads();
    const unsigned pixels = unsigned(images) * cls[0].count * cls[1].count * cls[2].count;
    const int depth = filters * cls[0].taps * cls[1].taps * cls[2].taps;
    if (row0 >= pixels) return;

    auto pixel = [&](unsigned m, int (&v)[4]) { digits_of(m, out[2], out[1], out[0], v); };      // w' h' d' n
    if (threadIdx.x < S::m) {
        int v[4];
        pixel(row0 + threadIdx.x, v);
        i64 off = v[3] * dx_n;
        UNROLL for (int i = 0; i < 3; ++i) off += (cls[i].first + i64(v[2 - i]) * stride[i]) * dx_s[i];
        dx_off[threadIdx.x] = off;
    }
    const Place<S::m, S::k> py(flags & X_ALONG_DEPTH, threadIdx.x);
    const Place<S::n, S::k> pw(flags & W_ALONG_DEPTH, threadIdx.x, flags & W_ROW_VECTORS);
    int z[3];
    {
        int v[4];
        pixel(row0 + py.row, v);
        dy += v[3] * dy_n + group * dy_group;
        UNROLL for (int i = 0; i < 3; ++i) z[i] = v[2 - i] + cls[i].start, dy += z[i] * dy_s[i];
        if (row0 + py.row >= pixels) z[0] = NOWHERE;
    }
    const bool w_valid = col0 + pw.row < channels;
    w += group * w_group + (col0 + pw.row) * w_c;
    UNROLL for (int i = 0; i < 3; ++i) w += i64(cls[i].tap0) * w_s[i];

    auto entry = [&](unsigned k, Tap& tap, int& plain) {
        int f, t[3];
        channel_and_tap(k, digit[0], digit[1], digit[2], channel_inner, f, t);
        tap.off = f * dy_k, plain = f * w_k;
        UNROLL for (int i = 0; i < 3; ++i) {
            tap.z[i] = -t[i] * z_step[i];
            tap.off += tap.z[i] * int(dy_s[i]), plain += t[i] * tap_step[i] * w_s[i];
        }
    };
    typename S::Sum acc[S::FM][S::FN];
    gather_multiply<S, false, true>(tiles, table, py, dy, z, dy_size, pw, w, w_valid, flags, 0, depth, entry,
                                    acc);

    auto emit = [&](int row, int col, typename S::Sum sum) {
        if (row0 + row >= pixels || col0 + col >= channels) return;
        const int channel = int(group) * channels + col0 + col;
        const i64 off = dx_off[row] + i64(channel) * dx_c;
        typename S::Sum v[1] = {blend(alpha, sum, beta, dx + off)};
        fuse_epilogue(v, off, channel);
        dx[off] = from_acc<T>(v[0]);
    };
    S::drain(tiles, acc, flags & OUT_ALONG_ROWS, emit);
}
