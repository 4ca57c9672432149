/*@kernel
name    = "pooling_fwd_nhwc_team_{T}_{OP}"
about   = """Large windows, 1 to 3 spatial dims, channels innermost: \
             the warps of a block share out the rows of the windows of 32 outputs."""
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int items", "int full",
           "Array<int,3> sizes", "Array<int,3> window", "Array<int,3> pad", "Array<int,3> stride",
           "FastDiv vectors", "Array<FastDiv,3> outs", "Array<int64_t,4> x_strides",
           "Array<int64_t,4> y_strides", "int team"]
block   = ["32 * team", 1, 1]
grid    = ["ceil_div(items, 32)", 1, 1]
needs   = ["1 <= team <= 8"]
problems = ["""pooling_fwd n2c24h9w8 window=5 pre_pad=6 stride=3 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc""",
            """pooling_fwd x=2x24x5x4x21:{T}@13656,1,2728,680,32 y=2x24x3x2x3:{T}@888,1,288,136,40 \
               window=3,3,17 pre_pad=1,0,2 stride=2,1,3 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'}""",
            """pooling_fwd n1c136h3w9 window=2,9 stride=1 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc"""]
@*/
// A lane is an output of 16 bytes of channels; warp m takes rows m, m + team, … of its window, eight loads
// in flight in each, then warp 0 joins what the others found. So few outputs fill the SMs, and a 7 x 7 window
// is one round trip, not seven. Arrays are w h d; strides w h d n.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, T* y, float alpha, float beta, int items, int full, Array<int, 3> sizes, Array<int, 3> window,
    Array<int, 3> pad, Array<int, 3> stride, FastDiv vectors, Array<FastDiv, 3> outs, Array<i64, 4> x_strides,
    Array<i64, 4> y_strides, int team) {
    constexpr int V = 16 / int(sizeof(T)), Batch = 8;
    using State = POOL_STATE(OP)<T, V>;
    __shared__ State found[7 * 32];  // of the lanes of all warps but the first
    const unsigned item = blockIdx.x * 32 + threadIdx.x % 32;
    const int member = threadIdx.x / 32;
    // All lanes reach the barrier.
    unsigned vector, at[3], rest = vectors.divmod(min(item, items - 1u), vector);
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

    State state;
    state.start();
    const int rows = count[1] * count[2];
    for (int row = member; row < rows; row += team) {
        const int slice = row < count[1] ? 0 : row / count[1];
        const T* line = x + slice * x_strides[2] + (row - slice * count[1]) * x_strides[1];
        for (int w = 0; w < count[0]; w += Batch) {
            Vec<T, V> v[Batch];
            UNROLL for (int b = 0; b < Batch; ++b)
                v[b] = Vec<T, V>::load_nc(line + min(w + b, count[0] - 1) * x_strides[0]);
            UNROLL for (int b = 0; b < Batch; ++b) state.add(v[b], w + b < count[0]);
        }
    }
    if (member) found[threadIdx.x - 32] = state;
    __syncthreads();
    if (member || item >= items) return;
    UNROLL for (int m = 1; m < 8; ++m)
        if (m < team) state.add(found[(m - 1) * 32 + threadIdx.x]);
    float result[V];
    state.finish(result, state.asked(cells), full);
    put(y, result, alpha, beta);
}
