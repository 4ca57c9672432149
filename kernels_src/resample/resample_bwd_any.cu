/*@kernel
name   = "resample_bwd_any_{KIND}_{MATH}_{LANES}"
about  = "dx of windows of any type and strides: a thread gathers eight channels of a cell, or one."
KIND   = ["max", "index", "avg", "linear"]
MATH   = ["f32", "f64"]
LANES  = [1, 8]
params = ["int items", "int channels_inner", "int padding", "int nan_wins", "int full", "MATH unit",
          "FastDiv units", "Array<int, 3> sizes", "Array<int, 3> outs", "Array<int, 3> window",
          "Array<int, 3> stride", "Array<int, 3> begin", "Array<int, 3> lift", "Array<FastDiv, 4> digits",
          "Array<int64_t, 5> x_strides", "Array<int64_t, 5> dy_strides", "Array<int64_t, 5> index_strides",
          "Array<int64_t, 5> dx_strides", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31 - 256", "channels_inner >= LANES // 8"]
marks  = ["load_dy", "store", "{'load_x' if KIND == 'max' else 'load_index' if KIND == 'index' else ''}"]
problems = [
    """resample_bwd dy=2x{16 if LANES == 8 else 3}x{'14x12' if KIND == 'linear' else '4x7'}:\
{'f16' if MATH == f32 else 'f64'}@nhwc \
       dx=2x{16 if LANES == 8 else 3}x7x6:{'f32' if MATH == f32 else 'f64'}@nhwc \
       {'index=2x' + ('16' if LANES == 8 else '3') + 'x4x7:i8@nhwc' if KIND == 'index' else ''} \
       {'x=2x' + ('16' if LANES == 8 else '3') + 'x7x6:f16@nhwc' if KIND == 'max' else ''} \
       window={'2 stride=1 pre_pad=1 post_pad=2 denominator=2' if KIND == 'linear' else \
       '3,2 stride=3,2 pre_pad=2,1 post_pad=1,3 denominator=2'} \
       mode={'avg_exclude_padding' if KIND == 'avg' else 'bilinear' if KIND == 'linear' else 'max'} \
       padding={'edge' if KIND == 'linear' else 'zero'} acc={MATH}""",
    """resample_bwd dy=2x{8 if LANES == 8 else 3}x4x3x4:{'bf16' if MATH == f32 else 'f64'}@nhwc \
       dx=2x{8 if LANES == 8 else 3}x4x5x6:{'f16' if MATH == f32 else 'f64'}@nhwc \
       {'index=2x' + ('8' if LANES == 8 else '3') + 'x4x3x4:i64@nhwc' if KIND == 'index' else ''} \
       {'x=2x' + ('8' if LANES == 8 else '3') + 'x4x5x6:bf16@nhwc' if KIND == 'max' else ''} \
       window=2 stride=1,2,2 pre_pad=1 post_pad=0,1,1 \
       mode={'avg_include_padding' if KIND == 'avg' else 'bilinear' if KIND == 'linear' else 'max'} \
       padding={'zero' if KIND == 'linear' else 'edge'} acc={MATH}""",
    """resample_bwd dy=2x{8 if LANES == 8 else 3}x7x{'8' if KIND == 'linear' else '7'}:\
{'f16' if MATH == f32 else 'f64'}{'@nhwc' if LANES == 8 else ''} \
       dx=2x{8 if LANES == 8 else 3}x6x7:{'f16' if MATH == f32 else 'f64'}{'@nhwc' if LANES == 8 else ''} \
       {'index=2x' + ('8' if LANES == 8 else '3') + 'x7x7:i32' + ('@nhwc' if LANES == 8 else '') \
        if KIND == 'index' else ''} \
       {'x=2x' + ('8' if LANES == 8 else '3') + 'x6x7:f16' + ('@nhwc' if LANES == 8 else '') \
        if KIND == 'max' else ''} \
       window={'2' if KIND == 'linear' else '2,3'} stride=1 pre_pad=1 post_pad=1 \
       mode={'avg_include_padding' if KIND == 'avg' else 'bilinear' if KIND == 'linear' else 'max'} \
       padding={'neg_inf' if KIND == 'max' else 'zero'} nan={'propagate' if KIND == 'max' else 'ignore'} \
       acc={MATH}"""]
@*/
// Digits and strides as in resample_fwd_any, of dx. A cell takes its part of every window that reads it, of
// those that clamp to it too: nothing is added by two threads.
#include "resample/resample.cuh"

constexpr Kind KINDS_max = max_of, KINDS_index = index_of, KINDS_avg = avg_of, KINDS_linear = linear_of;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

// Of one dim: the windows that read a cell, and which of their cells it is.
struct Over {
    int first, last;
    int tap, end;                                    // of window o
    bool is_low, is_high;                            // padding reads it

    DEVICE Over(const Axis& axis, int at, int outs, int units, bool edge) {
        is_low = edge && at == 0, is_high = edge && at == axis.size - 1;
        const int low = (at - axis.window + 1 + axis.lift) * units - axis.begin;         // within 2^30
        const int high = (at + axis.lift + 1) * units - axis.begin - 1;
        first = is_low || low <= 0 ? 0 : (low + axis.stride - 1) / axis.stride;
        last = is_high ? outs - 1 : high < 0 ? -1 : min(outs - 1, high / axis.stride);
    }
    DEVICE void look(const Axis& axis, int at, int begins) {
        tap = is_low ? 0 : max(0, at - begins);
        end = is_high ? axis.window - 1 : min(axis.window - 1, at - begins);
    }
};

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int items, int channels_inner, int padding, int nan_wins, int full, MATH unit, FastDiv units,
    Array<int, 3> sizes, Array<int, 3> outs, Array<int, 3> window, Array<int, 3> stride, Array<int, 3> begin,
    Array<int, 3> lift, Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> dy_strides,
    Array<i64, 5> index_strides, Array<i64, 5> dx_strides, Fuse fuse) {
    constexpr Kind kind = JOIN(KINDS_, KIND);
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= unsigned(items)) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const bool inner = LANES > 1 || channels_inner;
    const unsigned c = (inner ? e[0] : e[3]) * LANES;
    i64 to = n * dx_strides[4] + c * dx_strides[3];
    Axis axis[3];
    int at[3];
    UNROLL for (int k = 0; k < 3; ++k) {
        at[k] = inner ? e[k + 1] : e[k];
        axis[k] = {sizes[k], window[k], stride[k], begin[k], lift[k]};
        to += at[k] * dx_strides[k];
    }
    Over over[3] = {{axis[0], at[0], outs[0], int(units.by), padding == edge_pad},
                    {axis[1], at[1], outs[1], int(units.by), padding == edge_pad},
                    {axis[2], at[2], outs[2], int(units.by), padding == edge_pad}};
    MATH sum[LANES] = {};
    const auto place = [&](const Array<i64, 5>& s, int d, int h, int w) {
        return n * s[4] + c * s[3] + d * s[2] + h * s[1] + w * s[0];
    };
    NO_UNROLL for (int d = over[2].first; d <= over[2].last; ++d)
        NO_UNROLL for (int h = over[1].first; h <= over[1].last; ++h)
            NO_UNROLL for (int w = over[0].first; w <= over[0].last; ++w) {
                const int o[3] = {w, h, d};
                int first[3], cells = 1, times = 1;
                MATH weight = 1;
                UNROLL for (int k = 0; k < 3; ++k) {
                    unsigned rest;
                    first[k] = axis[k].first(o[k], units, rest);
                    over[k].look(axis[k], at[k], first[k]);
                    cells *= inside_of(axis[k], first[k]);
                    times *= max(0, over[k].end - over[k].tap + 1);
                    const MATH share = axis[k].window > 1 ? MATH(rest) * unit : MATH(0);
                    weight *= (over[k].tap <= 0 ? 1 - share : MATH(0)) + (over[k].end >= 1 ? share : MATH(0));
                }
                if (times == 0) continue;
                MATH dy[LANES] = {};
                fuse_load_dy(dy, place(dy_strides, d, h, w), c);
                if constexpr (kind == linear_of) {
                    UNROLL for (int i = 0; i < LANES; ++i) sum[i] = fma(dy[i], weight, sum[i]);
                } else if constexpr (kind == avg_of) {            // whole windows are divided by at the end
                    const MATH divisor = full ? MATH(1) : MATH(max(cells, 1));
                    UNROLL for (int i = 0; i < LANES; ++i) sum[i] += dy[i] * MATH(times) / divisor;
                } else {
                    int winner[LANES];
                    MATH seen[LANES] = {};
                    if constexpr (kind == index_of) {
                        fuse_load_index(seen, place(index_strides, d, h, w), c);
                        UNROLL for (int i = 0; i < LANES; ++i) winner[i] = int(seen[i]);
                    } else {
                        winners(seen, winner, axis, first, padding, nan_wins,
                                [&](MATH (&now)[LANES], int z, int y, int x) {
                                    fuse_load_x(now, place(x_strides, z, y, x), c);
                                });
                    }
                    NO_UNROLL for (int z = over[2].tap; z <= over[2].end; ++z)
                        NO_UNROLL for (int y = over[1].tap; y <= over[1].end; ++y)
                            NO_UNROLL for (int x = over[0].tap; x <= over[0].end; ++x) {
                                const int number = (z * axis[1].window + y) * axis[0].window + x;
                                UNROLL for (int i = 0; i < LANES; ++i)
                                    sum[i] += winner[i] == number ? dy[i] : 0;
                            }
                }
            }
    if (kind == avg_of && full) UNROLL for (int i = 0; i < LANES; ++i) sum[i] /= MATH(full);
    fuse_store(sum, to, item * LANES);
}
