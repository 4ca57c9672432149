/*@kernel
name   = "conv_wgrad_any_{S}_{TILE}"
about  = """Filter gradient as implicit GEMM, of any types, strides, groups, dilation; \
            spliced code loads and stores. The pixels may be split."""
S      = ["f32", "f64", "i32"]
TILE   = ["t64x64", "t32x32"]
params = ["S* parts", "int rows", "int filters", "int pixels", "int split_pixels", "int groups", "int flags",
          "Array<FastDiv, 3> out", "FastDiv channels", "Array<FastDiv, 3> taps", "Array<int, 3> size",
          "Array<int, 3> stride", "Array<int, 3> pad", "Array<int, 3> dilation", "int64_t x_n", "int64_t x_c",
          "Array<int64_t, 3> x_s", "int64_t dy_n", "int64_t dy_k", "Array<int64_t, 3> dy_s", "int64_t dw_k",
          "int64_t dw_c", "Array<int64_t, 3> dw_s", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * groups * splits", 1, 1]
extra  = ["tiles_m", "tiles_n", "splits"]
needs  = ["rows >= 1", "filters >= 1", "tiles_m * tiles_n * groups * splits < 2147483648"]
marks  = ["load_x", "load_w", "store"]
problems = [
    """conv_wgrad x=2x6x5x6:{'u8' if S == i32 else 'f16'} dy=2x10x5x7:{'i8' if S == i32 else 'bf16'} \
       dw=10x3x3x2:{S} pad1 acc={S}""",
    """conv_wgrad x=2x4x4x5x6:{'i32' if S == i32 else 'i8'}@480,1,120,24,4 \
       dy=2x5x2x3x3:{'i8' if S == i32 else 'f64'} dw=5x4x2x3x2:{'f32' if S == i32 else 'f16'} pre_pad=1,0,2 \
       post_pad=0,2,1 stride=2,1,3 dilation=1,2,1 mode=convolution acc={S}""",
    """conv_wgrad x=1x{80 if TILE == 't64x64' else 40}x7x9:i8 dy=1x70x7x9:i8 \
       dw=70x{80 if TILE == 't64x64' else 40}x1x1:f32 acc={S}""",
    "conv_wgrad x=3x4x19x19:i8 dy=3x4x18x18:i8 dw=4x4x2x2:{S} acc={S}"]
@*/
// A block makes one tile of rows (channel and tap of a group) x filters of the group, over `split_pixels`
// pixels. With one split (parts is null) spliced code stores it; else the sums go to
// parts[split][filter][row], which conv_wgrad_simt_sum adds in order. load_x at n c d h w of x, load_w at
// image k, channel c, pixel d h w of dy; store at row (filter) and col (channel and tap). flags: AnyFlags of
// conv/any.cuh; lanes run along the pixels or the rows.
#include "conv/any.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    S* parts, int rows, int filters, int pixels, int split_pixels, int groups, int flags,
    Array<FastDiv, 3> out, FastDiv channels, Array<FastDiv, 3> taps, Array<int, 3> size, Array<int, 3> stride,
    Array<int, 3> pad, Array<int, 3> dilation, i64 x_n, i64 x_c, Array<i64, 3> x_s, i64 dy_n, i64 dy_k,
    Array<i64, 3> dy_s, i64 dw_k, i64 dw_c, Array<i64, 3> dw_s, Fuse fuse) {
    using T = Simt<S, TILE>;
    constexpr int EX = T::m * T::k / 256, EY = T::n * T::k / 256;
    __shared__ typename T::Shared tiles;
    __shared__ Point points[2][T::k];                              // c is the image
    __shared__ i64 dw_off[T::m];

    const unsigned tiles_n = ceil_div(filters, T::n), tiles_m = ceil_div(rows, T::m);
    const unsigned row0 = blockIdx.x / tiles_n % tiles_m * T::m, rest = blockIdx.x / tiles_n / tiles_m;
    const int col0 = blockIdx.x % tiles_n * T::n, group = rest % groups, split = rest / groups;
    const i64 begin = i64(split) * split_pixels, end = min(begin + split_pixels, i64(pixels));
    auto tap_of = [&](unsigned row) {
        Point p = point_of(row, channels, taps, flags & CHANNEL_INNER);
        if (flags & FLIPPED) UNROLL for (int i = 0; i < 3; ++i) p.z[i] = int(taps[i].by) - 1 - p.z[i];
        return p;
    };
    if (threadIdx.x < T::m) {
        const Point p = point_of(row0 + threadIdx.x, channels, taps, flags & CHANNEL_INNER);
        dw_off[threadIdx.x] = p.c * dw_c + p.z[0] * dw_s[0] + p.z[1] * dw_s[1] + p.z[2] * dw_s[2];
    }
    const bool x_deep = flags & X_ALONG_DEPTH, y_deep = flags & W_ALONG_DEPTH;
    const int x_row = x_deep ? threadIdx.x / (T::k / EX) : threadIdx.x % T::m;
    const int x_k = (x_deep ? threadIdx.x % (T::k / EX) : threadIdx.x / T::m) * EX;
    const int y_row = y_deep ? threadIdx.x / (T::k / EY) : threadIdx.x % T::n;
    const int y_k = (y_deep ? threadIdx.x % (T::k / EY) : threadIdx.x / T::n) * EY;
    const Point tap = tap_of(row0 + x_row);
    const bool is_x = row0 + x_row < unsigned(rows), is_y = col0 + y_row < filters;
    const int c = group * int(channels.by) + tap.c, k = group * filters + col0 + y_row;
    S rx[EX], ry[EY];

    auto ahead = [&](int buffer, int at) {
        if (threadIdx.x >= T::k) return;
        Point p = {-1, {0, 0, 0}};
        if (unsigned m = at + threadIdx.x; m < end) {
            unsigned digit;
            UNROLL for (int i = 2; i >= 0; --i) m = out[i].divmod(m, digit), p.z[i] = digit;
            p.c = m;
        }
        points[buffer][threadIdx.x] = p;
    };
    auto load = [&](int buffer, int) {
        UNROLL for (int e = 0; e < EX; ++e) {
            const Point p = points[buffer][x_k + e];
            bool inside = is_x && p.c >= 0;
            int z[3];
            UNROLL for (int i = 0; i < 3; ++i) {
                z[i] = p.z[i] * stride[i] - pad[i] + tap.z[i] * dilation[i];
                inside = inside && unsigned(z[i]) < unsigned(size[i]);
            }
            rx[e] = 0;
            if (inside) {
                const i64 off = p.c * x_n + c * x_c + z[0] * x_s[0] + z[1] * x_s[1] + z[2] * x_s[2];
                fuse_load_x(rx[e], off, p.c, c, z[0], z[1], z[2]);
            }
        }
        UNROLL for (int e = 0; e < EY; ++e) {
            const Point p = points[buffer][y_k + e];
            ry[e] = 0;
            if (is_y && p.c >= 0) {
                const i64 off = p.c * dy_n + k * dy_k +
                                p.z[0] * dy_s[0] + p.z[1] * dy_s[1] + p.z[2] * dy_s[2];
                fuse_load_w(ry[e], off, p.c, k, p.z[0], p.z[1], p.z[2]);
            }
        }
    };
    auto store = [&](int buffer) {
        UNROLL for (int e = 0; e < EX; ++e) tiles.a[buffer][x_k + e][x_row] = rx[e];
        UNROLL for (int e = 0; e < EY; ++e) tiles.b[buffer][y_k + e][y_row] = ry[e];
    };
    S acc[T::FM][T::FN];
    simt_main<T>(tiles, acc, int(begin), int(end), ahead, load, store);

    T::drain(tiles, acc, true, [&](int row, int col, S sum) {
        if (row0 + row >= unsigned(rows) || col0 + col >= filters) return;
        const int filter = group * filters + col0 + col;
        if (parts) {
            parts[(i64(split) * groups * filters + filter) * rows + row0 + row] = sum;
            return;
        }
        S v[1] = {sum};
        fuse_store(v, filter * dw_k + dw_off[row], filter, int(row0) + row);
    });
}
