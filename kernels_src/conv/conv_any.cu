/*@kernel
name   = "conv_any_{S}_{TILE}"
about  = """Convolution and its data gradient as implicit GEMM, of any types, strides, groups, dilation; \
            spliced code loads and stores."""
S      = ["f32", "f64", "i32"]
TILE   = ["t64x64", "t32x32"]
params = ["int pixels", "int columns", "int depth", "int in_channels", "int flags", "Array<FastDiv, 3> out",
          "FastDiv channels", "Array<FastDiv, 3> taps", "Array<int, 3> size", "Array<int, 3> stride",
          "Array<int, 3> first", "Array<int, 3> step", "Array<FastDiv, 3> divide", "int64_t x_n",
          "int64_t x_c", "Array<int64_t, 3> x_s", "int64_t w_col", "int64_t w_group", "int64_t w_in",
          "Array<int64_t, 3> w_s", "int64_t y_n", "int64_t y_c", "Array<int64_t, 3> y_s", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * groups", 1, 1]
extra  = ["tiles_m", "tiles_n", "groups"]
needs  = ["pixels >= 1", "columns >= 1", "tiles_m * tiles_n * groups < 2147483648"]
marks  = ["load_x", "load_w", "store"]
problems = [
    """conv_fprop x=2x6x5x6:{'u8' if S == i32 else 'f16'} w=10x3x3x2:{'i8' if S == i32 else 'bf16'} \
       y=2x10x5x7:{S} pad1 acc={S}""",
    """conv_dgrad dy=2x10x3x3:{'i8' if S == i32 else 'bf16'} w=10x3x3x2:i8 dx=2x6x5x6:{S} pad1 stride2,3 \
       acc={S}""",
    """conv_dgrad dy=1x12x2x3x3:i8@nhwc w=12x3x1x3x2:i8 dx=1x3x4x5x6:{S}@nhwc pre_pad=0,1,1 post_pad=0,1,1 \
       stride3,2,3 acc={S}""",
    """conv_fprop x=2x4x4x5x6:{'i32' if S == i32 else 'i8'}@480,1,120,24,4 \
       w=5x4x2x3x2:{'i8' if S == i32 else 'f64'} y=2x5x2x3x3:{'f32' if S == i32 else 'f16'} pre_pad=1,0,2 \
       post_pad=0,2,1 stride=2,1,3 dilation=1,2,1 mode=convolution acc={S}""",
    """conv_dgrad dy=1x70x7x9:i8 w=70x{80 if TILE == 't64x64' else 40}x1x1:i8 \
       dx=1x{80 if TILE == 't64x64' else 40}x7x9:f32 acc={S}"""]
@*/
// A block makes one tile of output pixels x output channels of one group. Tap t of output pixel o reads input
// (o * stride + first + t * step) / divide where that is a whole number inside the input:
//   forward         divide 1
//                   columns = filters of a group, the depth runs over its channels
//   data gradient   stride 1, step -dilation, divide = stride
//                   columns = channels of a group, the depth runs over its filters
// load_x at n c d h w of the input, load_w at (column or filter) k, c and the tap of the filter, store at row
// (n, pixel) and col. flags: AnyFlags of conv/any.cuh.
#include "conv/any.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int pixels, int columns, int depth, int in_channels, int flags, Array<FastDiv, 3> out, FastDiv channels,
    Array<FastDiv, 3> taps, Array<int, 3> size, Array<int, 3> stride, Array<int, 3> first, Array<int, 3> step,
    Array<FastDiv, 3> divide, i64 x_n, i64 x_c, Array<i64, 3> x_s, i64 w_col, i64 w_group, i64 w_in,
    Array<i64, 3> w_s, i64 y_n, i64 y_c, Array<i64, 3> y_s, Fuse fuse) {
    using T = Simt<S, TILE>;
    constexpr int EX = T::m * T::k / 256, EW = T::n * T::k / 256;
    __shared__ typename T::Shared tiles;
    __shared__ Point points[2][T::k];
    __shared__ i64 y_off[T::m];

    const unsigned tiles_n = ceil_div(columns, T::n), tiles_m = ceil_div(pixels, T::m);
    const unsigned row0 = blockIdx.x / tiles_n % tiles_m * T::m, group = blockIdx.x / tiles_n / tiles_m;
    const int col0 = blockIdx.x % tiles_n * T::n;
    auto pixel = [&](unsigned m, int (&at)[4]) {                   // n, then the pixel
        unsigned digit;
        UNROLL for (int i = 2; i >= 0; --i) m = out[i].divmod(m, digit), at[1 + i] = digit;
        at[0] = m;
    };
    if (threadIdx.x < T::m) {
        int at[4];
        pixel(row0 + threadIdx.x, at);
        y_off[threadIdx.x] = at[0] * y_n + at[1] * y_s[0] + at[2] * y_s[1] + at[3] * y_s[2];
    }
    const bool x_deep = flags & X_ALONG_DEPTH, w_deep = flags & W_ALONG_DEPTH;
    const int x_row = x_deep ? threadIdx.x / (T::k / EX) : threadIdx.x % T::m;
    const int x_k = (x_deep ? threadIdx.x % (T::k / EX) : threadIdx.x / T::m) * EX;
    const int w_row = w_deep ? threadIdx.x / (T::k / EW) : threadIdx.x % T::n;
    const int w_k = (w_deep ? threadIdx.x % (T::k / EW) : threadIdx.x / T::n) * EW;
    int corner[4];
    pixel(row0 + x_row, corner);
    UNROLL for (int i = 0; i < 3; ++i) corner[1 + i] = corner[1 + i] * stride[i] + first[i];
    const bool is_x = row0 + x_row < unsigned(pixels), is_w = col0 + w_row < columns;
    S rx[EX], rw[EW];

    auto ahead = [&](int buffer, int at) {
        if (threadIdx.x >= T::k) return;
        Point p = {-1, {0, 0, 0}};
        if (at + int(threadIdx.x) < depth)
            p = point_of(at + threadIdx.x, channels, taps, flags & CHANNEL_INNER);
        points[buffer][threadIdx.x] = p;
    };
    auto load = [&](int buffer, int) {
        UNROLL for (int e = 0; e < EX; ++e) {
            const Point p = points[buffer][x_k + e];
            bool inside = is_x && p.c >= 0;
            int z[3];
            UNROLL for (int i = 0; i < 3; ++i) {
                unsigned rest = 0;
                z[i] = corner[1 + i] + p.z[i] * step[i];
                if (divide[i].by > 1 && z[i] >= 0) z[i] = divide[i].divmod(z[i], rest);
                inside = inside && unsigned(z[i]) < unsigned(size[i]) && rest == 0;
            }
            rx[e] = 0;
            if (!inside) continue;
            const int c = group * in_channels + p.c;
            const i64 off = corner[0] * x_n + c * x_c + z[0] * x_s[0] + z[1] * x_s[1] + z[2] * x_s[2];
            fuse_load_x(rx[e], off, corner[0], c, z[0], z[1], z[2]);
        }
        UNROLL for (int e = 0; e < EW; ++e) {
            const Point p = points[buffer][w_k + e];
            rw[e] = 0;
            if (!is_w || p.c < 0) continue;
            const int col = col0 + w_row;
            const int k = flags & DATA_GRADIENT ? group * in_channels + p.c : group * columns + col;
            int t[3];
            UNROLL for (int i = 0; i < 3; ++i) t[i] = flags & FLIPPED ? int(taps[i].by) - 1 - p.z[i] : p.z[i];
            const i64 off = group * w_group + col * w_col + p.c * w_in +
                            t[0] * w_s[0] + t[1] * w_s[1] + t[2] * w_s[2];
            fuse_load_w(rw[e], off, k, flags & DATA_GRADIENT ? col : p.c, t[0], t[1], t[2]);
        }
    };
    auto store = [&](int buffer) {
        UNROLL for (int e = 0; e < EX; ++e) tiles.a[buffer][x_k + e][x_row] = rx[e];
        UNROLL for (int e = 0; e < EW; ++e) tiles.b[buffer][w_k + e][w_row] = rw[e];
    };
    S acc[T::FM][T::FN];
    simt_main<T>(tiles, acc, 0, depth, ahead, load, store);

    T::drain(tiles, acc, flags & OUT_ALONG_ROWS, [&](int row, int col, S sum) {
        if (row0 + row >= unsigned(pixels) || col0 + col >= columns) return;
        const int channel = group * columns + col0 + col;
        S v[1] = {sum};
        fuse_store(v, y_off[row] + channel * y_c, int(row0) + row, channel);
    });
}
