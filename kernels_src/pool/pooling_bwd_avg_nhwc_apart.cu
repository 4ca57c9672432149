/*@kernel
name    = "pooling_bwd_avg_nhwc_apart_{T}"
about   = """dx of average pooling whose windows do not overlap, 1 to 3 spatial dims, channels innermost: \
             a thread spreads one dy, 16 bytes of channels."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* dy", "T* dx", "float alpha", "float beta", "int items", "int full",
           "Array<int,3> sizes", "Array<int,3> window", "Array<int,3> pad", "Array<int,3> stride",
           "FastDiv vectors", "Array<FastDiv,3> outs", "Array<int64_t,4> dy_strides",
           "Array<int64_t,4> dx_strides"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
problems = ["pooling_bwd n2c24h7w5 window=2 pre_pad=1 stride=3 mode=avg_include_padding {T} nhwc",
            """pooling_bwd y=2x24x3x2x4:{T} dy=2x24x3x2x4:{T}@856,1,280,136,32 \
               x=2x24x5x6x7:{T}@7016,1,1400,232,32 dx=2x24x5x6x7:{T}@8984,1,1792,296,40 window=2,1,3 \
               pre_pad=1,0,4 stride=2,3,4 mode=avg_exclude_padding"""]
@*/
// Window o owns the cells up to the next window, the last one all that is left; those it does not cover
// get alpha times 0. So each dy is read once, each cell written once. Arrays are w h d; strides w h d n.
// full: window size when padding counts, else 0.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* dy, T* dx, float alpha, float beta, int items, int full, Array<int, 3> sizes,
    Array<int, 3> window, Array<int, 3> pad, Array<int, 3> stride, FastDiv vectors, Array<FastDiv, 3> outs,
    Array<i64, 4> dy_strides, Array<i64, 4> dx_strides) {
    constexpr int V = 16 / int(sizeof(T));
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, at[3], rest = vectors.divmod(item, vector);
    dy += vector * V, dx += vector * V;
    UNROLL for (int k = 0; k < 3; ++k) rest = outs[k].divmod(rest, at[k]), dy += at[k] * dy_strides[k];
    const auto given = Vec<T, V>::load_nc(dy + rest * dy_strides[3]);
    dx += rest * dx_strides[3];
    Span own[3], covers[3];
    int cells = 1;
    UNROLL for (int k = 0; k < 3; ++k) {
        const int start = int(at[k]) * stride[k] - pad[k],
                  end = at[k] + 1 == outs[k].by ? sizes[k] : start + stride[k];
        own[k] = {max(0, start), min(sizes[k], end)};
        covers[k] = {max(0, start), min(sizes[k], start + window[k])};
        cells *= length(covers[k]);
    }
    const float share = 1.f / divisor_of(full, cells);      // of no use where the window covers no cell
    float result[V], none[V];
    given.get(result);
    UNROLL for (int i = 0; i < V; ++i) result[i] *= share * alpha, none[i] = 0.f * alpha;
    const auto inner = Vec<T, V>::of(result), outer = Vec<T, V>::of(none);

    for (int d = own[2].first; d < own[2].last; ++d)
        for (int h = own[1].first; h < own[1].last; ++h) {
            T* cell = dx + d * dx_strides[2] + h * dx_strides[1] + own[0].first * dx_strides[0];
            const int last = d < covers[2].last && h < covers[1].last ? covers[0].last : 0;
            _Pragma("unroll 2") for (int w = own[0].first; w < own[0].last; ++w, cell += dx_strides[0]) {
                if (beta == 0) {
                    (w < last ? inner : outer).store(cell);
                } else {
                    float blended[V];
                    UNROLL for (int i = 0; i < V; ++i) blended[i] = w < last ? result[i] : none[i];
                    put(cell, blended, 1.f, beta);
                }
            }
        }
}
