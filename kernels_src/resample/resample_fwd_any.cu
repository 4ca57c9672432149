/*@kernel
name   = "resample_fwd_any_{KIND}_{MATH}_{LANES}"
about  = """Windows of images of any type and strides; spliced code loads and stores. \
            Eight channels a thread, or one."""
KIND   = ["max", "avg", "linear"]
MATH   = ["f32", "f64"]
LANES  = [1, 8]
params = ["int items", "int channels_inner", "int padding", "int nan_wins", "int full", "MATH nothing",
          "MATH unit", "FastDiv units", "Array<int, 3> sizes", "Array<int, 3> window",
          "Array<int, 3> stride", "Array<int, 3> begin", "Array<int, 3> lift", "Array<FastDiv, 4> digits",
          "Array<int64_t, 5> x_strides", "Array<int64_t, 5> y_strides", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31 - 256", "channels_inner >= LANES // 8"]
marks  = ["load_x", "store", "{'index' if KIND == 'max' else ''}"]
problems = [
    """resample_fwd n2c{16 if LANES == 8 else 3}h7w6 window={'2 stride=1 pre_pad=1 post_pad=2 denominator=2' \
       if KIND == 'linear' else '3,2 stride=3,2 pre_pad=2,1 post_pad=1,3 denominator=2'} \
       mode={'max' if KIND == 'max' else 'avg_exclude_padding' if KIND == 'avg' else 'bilinear'} \
       nan={'propagate' if KIND == 'max' else 'ignore'} padding=edge nhwc \
       {'f16' if MATH == f32 else 'f64'} acc={MATH}""",
    """resample_fwd x=2x{8 if LANES == 8 else 3}x4x5x6:{'i8' if MATH == f32 else 'f64'}@nhwc \
       {'index=2x' + ('8' if LANES == 8 else '3') + 'x3x2x3:u8@nhwc' if KIND == 'max' else ''} \
       y=2x{8 if LANES == 8 else 3}x3x2x3:{'f16' if MATH == f32 else 'f64'}@nhwc window=2 stride=1,2,2 \
       mode={'max' if KIND == 'max' else 'avg_include_padding' if KIND == 'avg' else 'bilinear'} \
       acc={MATH}""",
    """resample_fwd x=2x{8 if LANES == 8 else 3}x6x7:{'f16' if MATH == f32 else 'f64'}\
{'@nhwc' if LANES == 8 else ''} \
       y=2x{8 if LANES == 8 else 3}x7x{'8' if KIND == 'linear' else '7'}:{'f16' if MATH == f32 else 'f64'}\
{'@nhwc' if LANES == 8 else ''} window={'2' if KIND == 'linear' else '2,3'} stride=1 pre_pad=1 post_pad=1 \
       mode={'max' if KIND == 'max' else 'avg_exclude_padding' if KIND == 'avg' else 'bilinear'} \
       padding={'neg_inf' if KIND == 'max' else 'zero'} acc={MATH}""",
    """{'resample_fwd x=2x3x5x7:f64@200,50,8,1 window=1 stride=1,3 denominator=2 post_pad=1,0 mode=nearest \
       acc=' + MATH if KIND == 'avg' and LANES == 1 else ''}"""]
@*/
// Digits of an item, innermost first: w h d c, or c w h d when channels_inner (c in units of the lanes); n is
// the rest. Strides are w h d c n.
#include "resample/resample.cuh"

constexpr Kind KINDS_max = max_of, KINDS_avg = avg_of, KINDS_linear = linear_of;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int items, int channels_inner, int padding, int nan_wins, int full, MATH nothing, MATH unit,
    FastDiv units, Array<int, 3> sizes, Array<int, 3> window, Array<int, 3> stride, Array<int, 3> begin,
    Array<int, 3> lift, Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> y_strides,
    Fuse fuse) {
    constexpr Kind kind = JOIN(KINDS_, KIND);
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= unsigned(items)) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const bool inner = LANES > 1 || channels_inner;
    const unsigned c = (inner ? e[0] : e[3]) * LANES;
    const i64 from = n * x_strides[4] + c * x_strides[3];
    i64 to = n * y_strides[4] + c * y_strides[3];
    Axis axis[3];
    int first[3], cells = 1;
    MATH share[3];
    UNROLL for (int k = 0; k < 3; ++k) {
        const int o = inner ? e[k + 1] : e[k];
        unsigned rest;
        axis[k] = {sizes[k], window[k], stride[k], begin[k], lift[k]};
        first[k] = axis[k].first(o, units, rest);
        share[k] = axis[k].window > 1 ? MATH(rest) * unit : MATH(0);
        cells *= inside_of(axis[k], first[k]);
        to += o * y_strides[k];
    }
    MATH v[LANES] = {};
    const unsigned out = item * LANES;
    const auto load = [&](MATH (&now)[LANES], int d, int h, int w) {
        fuse_load_x(now, from + d * x_strides[2] + h * x_strides[1] + w * x_strides[0], c);
    };
    if constexpr (kind == max_of) {
        int winner[LANES];
        winners(v, winner, axis, first, padding, nan_wins, load);
        MATH number[LANES];
        UNROLL for (int i = 0; i < LANES; ++i) {
            if (winner[i] < 0) v[i] = nothing;
            number[i] = MATH(max(winner[i], 0));
        }
        fuse_index(number, to, out);
    } else {
        NO_UNROLL for (int d = 0; d < axis[2].window; ++d)
            NO_UNROLL for (int h = 0; h < axis[1].window; ++h)
                NO_UNROLL for (int w = 0; w < axis[0].window; ++w) {
                    const Cell z(first[2] + d, axis[2].size), y(first[1] + h, axis[1].size),
                        x(first[0] + w, axis[0].size);
                    if (padding != edge_pad && !(z.inside && y.inside && x.inside)) continue;
                    MATH now[LANES] = {};
                    load(now, z.at, y.at, x.at);
                    const MATH weight = kind != linear_of ? MATH(1) :
                        (d ? share[2] : 1 - share[2]) * (h ? share[1] : 1 - share[1]) *
                        (w ? share[0] : 1 - share[0]);
                    UNROLL for (int i = 0; i < LANES; ++i)
                        v[i] = kind == linear_of ? fma(weight, now[i], v[i]) : v[i] + now[i];
                }
        const MATH divisor = MATH(full ? full : max(cells, 1));
        if (kind == avg_of) UNROLL for (int i = 0; i < LANES; ++i) v[i] /= divisor;
    }
    fuse_store(v, to, out);
}
