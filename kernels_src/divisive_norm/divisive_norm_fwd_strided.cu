/*@kernel
name    = "divisive_norm_fwd_strided_{T}"
about   = "Divisive normalization for any strides, 1 to 3 spatial dims: a thread makes one element."
T       = ["f64", "f32", "f16", "bf16"]
params  = ["const T* x", "const T* means", "T* y", "int items", "int channels_inner", "int behind",
           "int ahead", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset", "Array<int,3> sizes",
           "Array<FastDiv,4> digits", "Array<int64_t,5> x_strides", "Array<int64_t,5> means_strides",
           "Array<int64_t,5> y_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["divisive_norm_fwd x=2x3x7x9:{T} scale=2.0 offset=0.5",
            "divisive_norm_fwd n2c5h6w5 {T} nhwc window=4 scale=2.0 power=0.5",
            """divisive_norm_fwd x=2x3x4x3x5:{T}@800,222,55,11,2 means=2x3x4x3x5:{T} \
               y=2x3x4x3x5:{T}@900,252,61,13,2 window=3 scale=3.0""",
            "divisive_norm_fwd n1c2h6w5 {T} nhwc window=4 scale=2.0 power=1.0",
            "divisive_norm_fwd n1c2h6w5 {T} nhwc window=4 scale=0.0 offset=0.0 power=1.5",
            """divisive_norm_fwd n1c2h6w5 {T} nhwc window=4 scale=1e-310 \
               power={0.9935 if T == f64 else 0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
#include "cells.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* means, T* y, int items, int channels_inner, int behind, int ahead, Acc_T scale,
    Acc_T power, int quarters, Acc_T offset, Array<int, 3> sizes, Array<FastDiv, 4> digits,
    Array<i64, 5> x_strides, Array<i64, 5> means_strides, Array<i64, 5> y_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    const Cell cell(item, digits, channels_inner);
    const T* plane = x + cell.plane(x_strides);
    const A mean = means ? to_acc(means[cell.offset(means_strides)]) : A(0);
    A sum = 0;
    Window(cell, sizes, behind, ahead).each(x_strides, x_strides, [&](i64 at, i64) {
        const A z = to_acc(plane[at]) - mean;
        sum += z * z;
    });
    A s[1] = {offset + scale * sum};
    Power<T>{power, quarters}.raise(s);
    s[0] *= to_acc(plane[cell.inside(x_strides)]);
    put(y + cell.offset(y_strides), s, alpha, beta);
}
