/*@kernel
name    = "pooling_fwd_nhwc_{T}_{OP}"
about   = """Any window, stride and padding, 1 to 3 spatial dims, channels innermost: \
             a thread makes one output of 16 bytes of channels."""
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int items", "int full",
           "Array<int,3> sizes", "Array<int,3> window", "Array<int,3> pad", "Array<int,3> stride",
           "FastDiv vectors", "Array<FastDiv,3> outs", "Array<int64_t,4> x_strides",
           "Array<int64_t,4> y_strides"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
problems = ["""pooling_fwd n2c24h7w5 window=3 pre_pad=1 stride=2 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc""",
            """pooling_fwd x=2x24x4x5x6:{T}@4048,1,1008,200,32 y=2x24x2x3x7:{T}@1832,1,904,296,40 \
               window=2,3,5 pre_pad=1,0,6 stride=3,1,2 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'}"""]
@*/
// The cells of the window that lie inside are walked as one list, eight loads in flight. Arrays are
// w h d; strides w h d n.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, float alpha, float beta, int items, int full, Array<int, 3> sizes, Array<int, 3> window,
    Array<int, 3> pad, Array<int, 3> stride, FastDiv vectors, Array<FastDiv, 3> outs, Array<i64, 4> x_strides,
    Array<i64, 4> y_strides) {
    constexpr int V = 16 / int(sizeof(T)), Batch = 8;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, at[3], rest = vectors.divmod(item, vector);
    int count[3], cells = 1;
    x += vector * V, y += vector * V;
    UNROLL for (int k = 0; k < 3; ++k) {
        rest = outs[k].divmod(rest, at[k]);
        const int start = int(at[k]) * stride[k] - pad[k], first = max(0, start);
        count[k] = max(0, min(sizes[k], start + window[k]) - first);
        cells *= count[k];
        x += first * x_strides[k], y += at[k] * y_strides[k];
    }
    x += rest * x_strides[3], y += rest * y_strides[3];

    POOL_STATE(OP)<T, V> state;
    state.start();
    const i64 next_row = x_strides[1] - count[0] * x_strides[0],
              next_slice = x_strides[2] - count[1] * x_strides[1];
    int column = 0, row = 0;
    for (int t = 0; t < cells; t += Batch) {
        Vec<T, V> v[Batch];
        UNROLL for (int b = 0; b < Batch; ++b) {            // behind the last cell that cell is loaded again
            v[b] = Vec<T, V>::load_nc(x);
            const bool more = t + b + 1 < cells, row_ends = column + 1 == count[0],
                       slice_ends = row_ends && row + 1 == count[1];
            x += more ? x_strides[0] + (row_ends ? next_row : 0) + (slice_ends ? next_slice : 0) : 0;
            column = row_ends ? 0 : column + 1, row = slice_ends ? 0 : row + row_ends;
        }
        UNROLL for (int b = 0; b < Batch; ++b) state.add(v[b], t + b < cells);
    }
    float result[V];
    state.finish(result, state.asked(cells), full);
    put(y, result, alpha, beta);
}
