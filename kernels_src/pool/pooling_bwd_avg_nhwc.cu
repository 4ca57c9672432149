/*@kernel
name    = "pooling_bwd_avg_nhwc_{T}"
about   = """dx of average pooling, 1 to 3 spatial dims, channels innermost: \
             a thread gathers the windows over one cell, 16 bytes of channels."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* dy", "T* dx", "float alpha", "float beta", "int items", "int full",
           "Array<int,3> sizes", "Array<int,3> outs", "Array<int,3> window", "Array<int,3> pad",
           "Array<FastDiv,3> stride", "FastDiv vectors", "Array<FastDiv,3> cells",
           "Array<int64_t,4> dy_strides", "Array<int64_t,4> dx_strides"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["pooling_bwd n2c24h7w5 window=3 pre_pad=1 stride=2 mode=avg_include_padding {T} nhwc",
            """pooling_bwd y=2x24x5x2x7:{T} dy=2x24x5x2x7:{T}@2376,1,472,232,32 \
               x=2x24x4x6x7:{T}@5616,1,1400,232,32 dx=2x24x4x6x7:{T}@7192,1,1792,296,40 window=2,3,5 \
               pre_pad=1,0,2 stride=1,2,1 mode=avg_exclude_padding"""]
@*/
// Arrays are w h d; strides w h d n; cells = sizes. full: window size when padding counts
// in averages, else 0.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, T* dx, float alpha, float beta, int items, int full, Array<int, 3> sizes, Array<int, 3> outs,
    Array<int, 3> window, Array<int, 3> pad, Array<FastDiv, 3> stride, FastDiv vectors,
    Array<FastDiv, 3> cells, Array<i64, 4> dy_strides, Array<i64, 4> dx_strides) {
    constexpr int V = 16 / int(sizeof(T));
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, rest = vectors.divmod(item, vector);
    Geometry g[3];
    Span over[3];
    dy += vector * V, dx += vector * V;
    UNROLL for (int k = 0; k < 3; ++k) {
        unsigned at;
        rest = cells[k].divmod(rest, at);
        g[k] = {sizes[k], outs[k], window[k], pad[k], stride[k]};
        over[k] = g[k].windows(at);
        dx += at * dx_strides[k];
    }
    dy += rest * dy_strides[3], dx += rest * dx_strides[3];

    float sum[V] = {};
    for (int d = over[2].first; d < over[2].last; ++d)
        for (int h = over[1].first; h < over[1].last; ++h) {
            const int cells_dh = length(g[2].cells(d)) * length(g[1].cells(h));
            const T* row = dy + d * dy_strides[2] + h * dy_strides[1];
            _Pragma("unroll 2") for (int w = over[0].first; w < over[0].last; ++w) {
                const auto v = Vec<T, V>::load_nc(row + w * dy_strides[0]);
                const float share = 1.f / divisor_of(full, cells_dh * length(g[0].cells(w)));
                UNROLL for (int i = 0; i < V; ++i) sum[i] += to_acc(v[i]) * share;
            }
        }
    put(dx, sum, alpha, beta);
}
