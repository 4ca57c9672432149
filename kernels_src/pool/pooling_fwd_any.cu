/*@kernel
name    = "pooling_fwd_any_{T}_{OP}"
about   = "Any strides, window, padding, 1 to 3 spatial dims: a thread makes one output element."
T       = ["f64", "f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
params  = ["const T* x", "T* y", "Acc_T alpha", "Acc_T beta", "int items", "int full", "int channels_inner",
           "Array<int,3> sizes", "Array<int,3> window", "Array<int,3> pad", "Array<int,3> stride",
           "Array<FastDiv,4> digits", "Array<int64_t,5> x_strides", "Array<int64_t,5> y_strides"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["""pooling_fwd n2c3h7w6 window=3 pre_pad=1 stride=2 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n2c3d5h4w6 window=3,2,2 pre_pad=1 stride=2 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc""",
            """pooling_fwd x=2x3x4x6x9:{T}@737,245,61,10,1 y=2x3x2x4x11:{T}@333,110,54,13,1 window=2,3,9 \
               pre_pad=1,0,10 stride=3,1,2 mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'}"""]
@*/
// Digits of an item, innermost first: w h d c, or c w h d when channels_inner (lanes then run along
// channels); n is the rest. Arrays are w h d; strides w h d c n.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, acc_t<T> alpha, acc_t<T> beta, int items, int full, int channels_inner,
    Array<int, 3> sizes, Array<int, 3> window, Array<int, 3> pad, Array<int, 3> stride,
    Array<FastDiv, 4> digits, Array<i64, 5> x_strides, Array<i64, 5> y_strides) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const unsigned c = channels_inner ? e[0] : e[3];
    x += n * x_strides[4] + c * x_strides[3], y += n * y_strides[4] + c * y_strides[3];
    int first[3], last[3], cells = 1;
    UNROLL for (int k = 0; k < 3; ++k) {
        const int o = channels_inner ? e[k + 1] : e[k], start = o * stride[k] - pad[k];
        first[k] = max(0, start), last[k] = min(sizes[k], start + window[k]);
        cells *= max(0, last[k] - first[k]);
        y += o * y_strides[k];
    }
    POOL_STATE(OP)<T, 1> state;
    state.start();
    for (int d = first[2]; d < last[2]; ++d)
        for (int h = first[1]; h < last[1]; ++h) {
            const T* row = x + d * x_strides[2] + h * x_strides[1];
            _Pragma("unroll 4") for (int w = first[0]; w < last[0]; ++w) state.add(row[w * x_strides[0]]);
        }
    acc_t<T> result[1];
    state.finish(result, state.asked(cells), full);
    put(y, result, alpha, beta);
}
