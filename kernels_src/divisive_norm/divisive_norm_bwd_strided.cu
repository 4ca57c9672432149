/*@kernel
name    = "divisive_norm_bwd_strided_{T}"
about   = """dx of divisive normalization for any strides from what divisive_norm_bwd_terms left: a thread \
             gathers one element."""
T       = ["f64", "f32", "f16", "bf16"]
params  = ["const T* x", "const T* means", "const Acc_T* own", "const Acc_T* g", "T* dx", "int items",
           "int channels_inner", "int behind", "int ahead", "Acc_T slope", "Array<int,3> sizes",
           "Array<FastDiv,4> digits", "Array<int64_t,5> x_strides", "Array<int64_t,5> means_strides",
           "Array<int64_t,5> g_strides", "Array<int64_t,5> dx_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["divisive_norm_bwd n2c3h7w9 {T} scale=2.0 offset=0.5",
            "divisive_norm_bwd n2c5h6w5 {T} nhwc window=4 scale=2.0 power=0.5",
            """divisive_norm_bwd x=2x3x4x3x5:{T}@800,222,55,11,2 means=2x3x4x3x5:{T} dy=2x3x4x3x5:{T} \
               dx=2x3x4x3x5:{T}@900,252,61,13,2 dmeans=none window=5 scale=3.0"""]
@*/
// behind and ahead are those of the window, exchanged here: the cells whose windows have this one.
#include "cells.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* means, const Acc_T* own, const Acc_T* g, T* dx, int items, int channels_inner,
    int behind, int ahead, Acc_T slope, Array<int, 3> sizes, Array<FastDiv, 4> digits,
    Array<i64, 5> x_strides, Array<i64, 5> means_strides, Array<i64, 5> g_strides,
    Array<i64, 5> dx_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    const Cell cell(item, digits, channels_inner);
    const A mine = to_acc(x[cell.offset(x_strides)]);
    g += cell.plane(g_strides);
    const T* plane = means ? means + cell.plane(means_strides) : nullptr;
    A sum = 0;
    Window(cell, sizes, ahead, behind).each(g_strides, means_strides, [&](i64 at, i64 mean_at) {
        sum += g[at] * (mine - (plane ? to_acc(plane[mean_at]) : A(0)));
    });
    A out[1] = {own[item] - slope * sum};
    put(dx + cell.offset(dx_strides), out, alpha, beta);
}
