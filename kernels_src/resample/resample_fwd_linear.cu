/*@kernel
name   = "resample_fwd_linear_{MATH}_{ALONG}{DEPTH}"
about  = """Bilinear windows of images of any type: a thread makes eight neighbours of a row one after the \
            other, of eight channels or of one, and keeps the two columns that they lie between."""
MATH   = ["f32", "f64"]
ALONG  = ["c", "w"]
DEPTH  = [1, 2]
params = ["int items", "int channels", "int padding", "MATH unit", "FastDiv units", "Array<int, 3> sizes",
          "Array<int, 3> window", "Array<int, 3> stride", "Array<int, 3> begin", "Array<int, 3> lift",
          "Array<int, 3> outs", "Array<FastDiv, 4> digits", "Array<int64_t, 5> x_strides",
          "Array<int64_t, 5> y_strides", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31 - 256"]
marks  = ["load_x", "store"]
problems = [
    """resample_fwd \
       x=2x{24 if ALONG == 'c' else 3}{'x3' if DEPTH > 1 else ''}x7x{10 if ALONG == 'c' else 14}:\
{'f16' if MATH == f32 else 'f64'}{'@nhwc' if ALONG == 'c' else ''} window=2 stride=1 pre_pad=1 \
       post_pad={'2,' if DEPTH > 1 else ''}2,{'2' if ALONG == 'c' else '4'} denominator=2 mode=bilinear \
       padding=edge acc={MATH}""",
    """resample_fwd x=2x{8 if ALONG == 'c' else 3}{'x4' if DEPTH > 1 else ''}x5x{6 if ALONG == 'c' else 16}:\
{'i8' if MATH == f32 else 'f64'}{'@nhwc' if ALONG == 'c' else ''} \
       y=2x{8 if ALONG == 'c' else 3}{'x3' if DEPTH > 1 else ''}x2x{3 if ALONG == 'c' else 8}:\
{'f16' if MATH == f32 else 'f64'}{'@nhwc' if ALONG == 'c' else ''} window=2 \
       stride={'1,' if DEPTH > 1 else ''}2,2 mode=bilinear acc={MATH}""",
    """resample_fwd x=2x{8 if ALONG == 'c' else 3}{'x2' if DEPTH > 1 else ''}x6x7:\
{'f16' if MATH == f32 else 'f64'}{'@nhwc' if ALONG == 'c' else ''} \
       y=2x{8 if ALONG == 'c' else 3}{'x3' if DEPTH > 1 else ''}x7x8:{'f16' if MATH == f32 else 'f64'}\
{'@nhwc' if ALONG == 'c' else ''} window=2 stride=1 pre_pad=1 post_pad=1 mode=bilinear padding=zero \
       acc={MATH}"""]
@*/
// Digits of an item, innermost first: octets of c, strips of w, h d, or strips of w, h d c; n is the rest. A
// strip is eight outputs. Strides are w h d c n.
#include "resample/resample.cuh"

constexpr int ALONG_c = 0, ALONG_w = 1, STRIP = 8;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)
constexpr bool BY_CHANNELS = JOIN(ALONG_, ALONG) == ALONG_c;
constexpr int LANES = BY_CHANNELS ? 8 : 1;
constexpr int BLOCKS = sizeof(MATH) == 4 && DEPTH == 1 ? 4 : 2;                       // of an SM, at least

// The two cells of an output along one dim, and their weights.
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

// Columns of x between the rows of an output, of DEPTH planes of two rows.
struct Columns {
    i64 row[2 * DEPTH], step;
    MATH weight[2 * DEPTH];
    bool counts[2 * DEPTH], edge;
    int size, c;

    DEVICE Columns(const Pair& z, const Pair& y, i64 from, const Array<i64, 5>& strides, int size, int c,
                   bool edge)
        : step(strides[0]), edge(edge), size(size), c(c) {
        UNROLL for (int k = 0; k < 2 * DEPTH; ++k) {
            row[k] = from + z.at[k / 2] * strides[2] + y.at[k % 2] * strides[1];
            weight[k] = z.weight[k / 2] * y.weight[k % 2], counts[k] = z.counts[k / 2] && y.counts[k % 2];
        }
    }
    DEVICE void read(MATH (&to)[LANES], int column) const {
        const Cell cell(column, size);
        const bool inside = edge || cell.inside;
        MATH now[2 * DEPTH][LANES] = {};
        UNROLL for (int k = 0; k < 2 * DEPTH; ++k) {
            // of one channel without branches, so that loads of all columns are under way at once
            if (!BY_CHANNELS || inside && counts[k]) fuse_load_x(now[k], row[k] + cell.at * step, c);
            if (!BY_CHANNELS && !(inside && counts[k])) now[k][0] = 0;
        }
        UNROLL for (int i = 0; i < LANES; ++i) to[i] = weight[0] * now[0][i];
        UNROLL for (int k = 1; k < 2 * DEPTH; ++k)
            UNROLL for (int i = 0; i < LANES; ++i) to[i] = fma(weight[k], now[k][i], to[i]);
    }
};

// NEAR: there are two columns, and the next output begins within one cell.
template <bool NEAR>
DEVICE void walk(const Columns& columns, const Axis& axis, int low, int outs, const FastDiv& units,
                 MATH unit, i64 to, i64 step_y, unsigned out, unsigned step_out) {
    unsigned rest, more;
    int first = axis.first(low, units, rest);
    const int whole = units.divmod(unsigned(axis.stride), more);
    const bool two = NEAR || axis.window > 1;
    MATH left[LANES], right[LANES] = {}, row[8];
    columns.read(left, first);
    if (two) columns.read(right, first + 1);
    _Pragma("unroll (BY_CHANNELS ? 2 : STRIP)") for (int o = 0; o < STRIP; ++o) {
        if (BY_CHANNELS && low + o >= outs) break;
        const MATH share = two ? MATH(rest) * unit : MATH(0);
        if constexpr (BY_CHANNELS) {
            UNROLL for (int i = 0; i < 8; ++i) row[i] = fma(share, right[i], (1 - share) * left[i]);
            fuse_store(row, to + o * step_y, out + o * step_out);
        } else {
            row[o] = fma(share, right[0], (1 - share) * left[0]);
        }
        if (o + 1 == STRIP) break;
        int step = whole;
        rest += more;
        if (rest >= units.by) rest -= units.by, ++step;
        if (BY_CHANNELS && step == 0) continue;
        first += step;
        UNROLL for (int i = 0; i < LANES; ++i) left[i] = step == 0 ? left[i] : right[i];
        if (!NEAR && (step > 1 || !two)) columns.read(left, first);
        if (two) columns.read(right, first + 1);
    }
    if constexpr (!BY_CHANNELS) fuse_store(row, to, out);
}

extern "C" __global__ __launch_bounds__(256, BLOCKS) void KERNEL(
    int items, int channels, int padding, MATH unit, FastDiv units, Array<int, 3> sizes, Array<int, 3> window,
    Array<int, 3> stride, Array<int, 3> begin, Array<int, 3> lift, Array<int, 3> outs,
    Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> y_strides, Fuse fuse) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= unsigned(items)) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const bool edge = padding == edge_pad;
    Axis axis[3];
    UNROLL for (int k = 0; k < 3; ++k) axis[k] = {sizes[k], window[k], stride[k], begin[k], lift[k]};
    const int c = BY_CHANNELS ? e[0] * 8 : e[3], low = (BY_CHANNELS ? e[1] : e[0]) * STRIP;
    const int high = BY_CHANNELS ? e[2] : e[1], deep = BY_CHANNELS ? e[3] : e[2];
    const Pair z(axis[2], deep, units, unit, edge), y(axis[1], high, units, unit, edge);
    const i64 from = n * x_strides[4] + c * x_strides[3];
    const i64 to = n * y_strides[4] + deep * y_strides[2] + high * y_strides[1] + low * y_strides[0]
                   + c * y_strides[3];
    const unsigned plane = BY_CHANNELS ? n : n * channels + c;
    const unsigned pixel = ((plane * outs[2] + deep) * outs[1] + high) * outs[0] + low;
    const unsigned out = BY_CHANNELS ? pixel * channels + c : pixel;
    const Columns columns(z, y, from, x_strides, sizes[0], c, edge);
    if (window[0] > 1 && unsigned(stride[0]) <= units.by)
        walk<true>(columns, axis[0], low, outs[0], units, unit, to, y_strides[0], out, channels);
    else
        walk<false>(columns, axis[0], low, outs[0], units, unit, to, y_strides[0], out, channels);
}
