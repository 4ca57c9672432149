/*@kernel
name   = "resample_fwd_linear_{MATH}_{ALONG}"
about  = """Bilinear windows of images of any type; loads of a window are under way at once. A thread makes \
            16 channels of an output, or eight outputs of a row."""
MATH   = ["f32", "f64"]
ALONG  = ["c", "w"]
params = ["int items", "int channels", "int padding", "MATH unit", "FastDiv units", "Array<int, 3> sizes",
          "Array<int, 3> window", "Array<int, 3> stride", "Array<int, 3> begin", "Array<int, 3> lift",
          "Array<int, 3> outs", "Array<FastDiv, 4> digits", "Array<int64_t, 5> x_strides",
          "Array<int64_t, 5> y_strides", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31 - 256"]
marks  = ["load_x", "store"]
problems = [
    """resample_fwd n2c{24 if ALONG == 'c' else 3}h7w{10 if ALONG == 'c' else 14} \
       window=2 stride=1 pre_pad=1 post_pad={'2' if ALONG == 'c' else '2,4'} denominator=2 mode=bilinear \
       padding=edge {'nhwc' if ALONG == 'c' else 'nchw'} {'f16' if MATH == f32 else 'f64'} acc={MATH}""",
    """resample_fwd \
       x=2x{8 if ALONG == 'c' else 3}x4x5x{6 if ALONG == 'c' else 16}:{'i8' if MATH == f32 else 'f64'}\
{'@nhwc' if ALONG == 'c' else ''} y=2x{8 if ALONG == 'c' else 3}x3x2x{3 if ALONG == 'c' else 8}:\
{'f16' if MATH == f32 else 'f64'}{'@nhwc' if ALONG == 'c' else ''} window=2 stride=1,2,2 \
       mode=bilinear acc={MATH}""",
    """resample_fwd x=2x{8 if ALONG == 'c' else 3}x6x7:{'f16' if MATH == f32 else 'f64'}\
{'@nhwc' if ALONG == 'c' else ''} y=2x{8 if ALONG == 'c' else 3}x7x8:{'f16' if MATH == f32 else 'f64'}\
{'@nhwc' if ALONG == 'c' else ''} window=2 stride=1 pre_pad=1 post_pad=1 mode=bilinear padding=zero \
       acc={MATH}"""]
@*/
// Digits of an item, innermost first: c w h d (c in pairs of octets, the second behind all first ones), or
// w h d c (w in octets); n is the rest. Strides are w h d c n.
#include "resample/resample.cuh"

constexpr int ALONG_c = 0, ALONG_w = 1;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

// The two cells of an output along one dim, and their weights; 0 of one that counts nothing.
struct Pair {
    int at[2];
    MATH weight[2];
    bool counts[2];
    DEVICE Pair(const Axis& axis, int o, const FastDiv& units, MATH unit, bool edge) {
        unsigned rest;
        const int first = axis.first(o, units, rest);
        const MATH share = axis.window > 1 ? MATH(rest) * unit : MATH(0);
        weight[0] = 1 - share, weight[1] = share;
        UNROLL for (int i = 0; i < 2; ++i) {
            const Cell cell(first + i, axis.size);
            at[i] = cell.at, counts[i] = i < axis.window && (edge || cell.inside);
        }
    }
};

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int items, int channels, int padding, MATH unit, FastDiv units, Array<int, 3> sizes, Array<int, 3> window,
    Array<int, 3> stride, Array<int, 3> begin, Array<int, 3> lift, Array<int, 3> outs,
    Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> y_strides, Fuse fuse) {
    constexpr bool by_channels = JOIN(ALONG_, ALONG) == ALONG_c;
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= unsigned(items)) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const bool edge = padding == edge_pad;
    Axis axis[3];
    UNROLL for (int k = 0; k < 3; ++k) axis[k] = {sizes[k], window[k], stride[k], begin[k], lift[k]};
    const int low = by_channels ? e[1] : e[0] * 8, high = by_channels ? e[2] : e[1];
    const int deep = by_channels ? e[3] : e[2], c = by_channels ? e[0] * 8 : e[3];
    const Pair z(axis[2], deep, units, unit, edge), y(axis[1], high, units, unit, edge);
    const i64 from = n * x_strides[4], to = n * y_strides[4] + deep * y_strides[2] + high * y_strides[1];
    const unsigned plane = by_channels ? n : n * channels + c;
    const unsigned pixel = (plane * outs[2] + deep) * outs[1] + high;
    if constexpr (by_channels) {
        const Pair x(axis[0], low, units, unit, edge);
        const int more = int(digits[0].by) * 8;
        const bool second = c + more < channels;
        MATH v[2][8] = {};
        NO_UNROLL for (int d = 0; d < axis[2].window; ++d) {
            MATH now[2][4][8];
            UNROLL for (int o = 0; o < 2; ++o)
                UNROLL for (int k = 0; k < 4; ++k) {
                    const bool counts = z.counts[d] && y.counts[k / 2] && x.counts[k % 2];
                    UNROLL for (int i = 0; i < 8; ++i) now[o][k][i] = 0;
                    if (counts && (o == 0 || second))
                        fuse_load_x(now[o][k], from + (c + o * more) * x_strides[3] + z.at[d] * x_strides[2]
                                                   + y.at[k / 2] * x_strides[1] + x.at[k % 2] * x_strides[0],
                                    c + o * more);
                }
            UNROLL for (int k = 0; k < 4; ++k) {
                const MATH weight = z.weight[d] * y.weight[k / 2] * x.weight[k % 2];
                UNROLL for (int o = 0; o < 2; ++o) UNROLL for (int i = 0; i < 8; ++i)
                    v[o][i] = fma(weight, now[o][k][i], v[o][i]);
            }
        }
        const unsigned out = (pixel * outs[0] + low) * channels + c;
        fuse_store(v[0], to + low * y_strides[0] + c * y_strides[3], out);
        if (second) fuse_store(v[1], to + low * y_strides[0] + (c + more) * y_strides[3], out + more);
    } else {
        MATH v[8] = {};
        NO_UNROLL for (int d = 0; d < axis[2].window; ++d)
            UNROLL for (int h = 0; h < 2; ++h) {
                const MATH weight = z.weight[d] * y.weight[h];
                const i64 row = from + c * x_strides[3] + z.at[d] * x_strides[2] + y.at[h] * x_strides[1];
                MATH now[8][2][1];
                UNROLL for (int i = 0; i < 8; ++i) {
                    const Pair x(axis[0], low + i, units, unit, edge);
                    UNROLL for (int w = 0; w < 2; ++w) {
                        now[i][w][0] = 0;
                        if (z.counts[d] && y.counts[h] && x.counts[w])
                            fuse_load_x(now[i][w], row + x.at[w] * x_strides[0], c);
                    }
                }
                UNROLL for (int i = 0; i < 8; ++i) {
                    const Pair x(axis[0], low + i, units, unit, edge);
                    UNROLL for (int w = 0; w < 2; ++w)
                        v[i] = fma(weight * x.weight[w], now[i][w][0], v[i]);
                }
            }
        fuse_store(v, to + low * y_strides[0] + c * y_strides[3], pixel * outs[0] + low);
    }
}
