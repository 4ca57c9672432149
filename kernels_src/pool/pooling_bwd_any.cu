/*@kernel
name    = "pooling_bwd_any_{T}_{OP}"
about   = """dx of pooling for any strides, window, padding, 1 to 3 spatial dims: \
             a thread gathers one element of dx."""
T       = ["f64", "f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
params  = ["const T* x", "const T* dy", "T* dx", "Acc_T alpha", "Acc_T beta", "int items", "int full",
           "int channels_inner", "Array<int,3> sizes", "Array<int,3> outs", "Array<int,3> window",
           "Array<int,3> pad", "Array<FastDiv,3> stride", "Array<FastDiv,4> digits",
           "Array<int64_t,5> x_strides", "Array<int64_t,5> dy_strides", "Array<int64_t,5> dx_strides"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["""pooling_bwd n2c3h7w6 window=3 pre_pad=1 stride=2 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_bwd n2c3d5h4w6 window=3,2,2 pre_pad=1 stride=2 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc""",
            """pooling_bwd y=2x3x4x2x9:{T} dy=2x3x4x2x9:{T}@257,85,21,10,1 x=2x3x3x4x9:{T}@374,124,41,10,1 \
               dx=2x3x3x4x9:{T}@423,140,46,11,1 window=2,2,9 pre_pad=1,0,4 stride=1,2,1 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'}"""]
@*/
// Digits and arrays as in pooling_fwd_any. Maxima: the cell takes the dy of each window over it that it wins,
// which is found by walking the window; nothing is stored and nothing is added by two threads.
#include "pool.cuh"

#define IS_avg 1
#define IS_max 2
#define IS_max_nan 3
#define POOL_KIND(OP) POOL_JOIN(IS_, OP)

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, T* dx, acc_t<T> alpha, acc_t<T> beta, int items, int full, int channels_inner,
    Array<int, 3> sizes, Array<int, 3> outs, Array<int, 3> window, Array<int, 3> pad,
    Array<FastDiv, 3> stride, Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> dy_strides,
    Array<i64, 5> dx_strides) {
    using A = acc_t<T>;
    constexpr int kind = POOL_KIND(OP);
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const unsigned c = channels_inner ? e[0] : e[3];
    x += n * x_strides[4] + c * x_strides[3], dy += n * dy_strides[4] + c * dy_strides[3];
    dx += n * dx_strides[4] + c * dx_strides[3];
    Geometry g[3];
    Span over[3];
    int cell = 0, step = 1;             // by its number: where strides are 0, cells share an address
    UNROLL for (int k = 0; k < 3; ++k) {
        const int at = channels_inner ? e[k + 1] : e[k];
        g[k] = {sizes[k], outs[k], window[k], pad[k], stride[k]};
        over[k] = g[k].windows(at);
        cell += at * step, step *= sizes[k], dx += at * dx_strides[k];
    }
    // Whether this cell is the first largest of the cells of window (d, h, w).
    const auto wins = [&](Span sd, Span sh, Span sw) {
        int winner = -1;
        A best = kind == IS_max ? A(NAN) : A(-INFINITY);
        for (int d = sd.first; d < sd.last; ++d)
            for (int h = sh.first; h < sh.last; ++h)
                for (int w = sw.first; w < sw.last; ++w) {
                    const A now = to_acc(x[d * x_strides[2] + h * x_strides[1] + w * x_strides[0]]);
                    const bool takes = kind == IS_max ? now == now && !(now <= best)
                                                      : best == best && (winner < 0 || !(now <= best));
                    if (takes) best = now, winner = (d * sizes[1] + h) * sizes[0] + w;
                }
        return winner == cell;
    };
    A sum[1] = {};
    for (int d = over[2].first; d < over[2].last; ++d)
        for (int h = over[1].first; h < over[1].last; ++h)
            for (int w = over[0].first; w < over[0].last; ++w) {
                const Span sd = g[2].cells(d), sh = g[1].cells(h), sw = g[0].cells(w);
                const T* from = dy + d * dy_strides[2] + h * dy_strides[1] + w * dy_strides[0];
                if constexpr (kind == IS_avg)
                    sum[0] += to_acc(*from) / divisor_of(full, length(sd) * length(sh) * length(sw));
                else if (wins(sd, sh, sw)) sum[0] += to_acc(*from);
            }
    put(dx, sum, alpha, beta);
}
