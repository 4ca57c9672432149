/*@kernel
name    = "divisive_norm_bwd_terms_{T}"
about   = """What the gradient of divisive normalization is summed from, for any strides: \
             own = dy * s^-power and g = lift * dy * x * s^-(power+1) of every element; and dmeans."""
T       = ["f64", "f32", "f16", "bf16"]
params  = ["const T* x", "const T* means", "const T* dy", "Acc_T* own", "Acc_T* g", "T* dmeans",
           "int items", "int channels_inner", "int behind", "int ahead", "Acc_T scale", "Acc_T power",
           "int quarters", "Acc_T offset", "Acc_T slope", "Acc_T lift", "Array<int,3> sizes",
           "Array<FastDiv,4> digits", "Array<int64_t,5> x_strides", "Array<int64_t,5> means_strides",
           "Array<int64_t,5> dy_strides", "Array<int64_t,5> dmeans_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["divisive_norm_bwd n2c3h7w9 {T} scale=2.0 offset=0.5",
            "divisive_norm_bwd n2c5h6w5 {T} nhwc window=4 scale=2.0 power=0.5",
            """divisive_norm_bwd x=2x3x4x3x5:{T}@800,222,55,11,2 means=2x3x4x3x5:{T} dy=2x3x4x3x5:{T} \
               dx=2x3x4x3x5:{T} dmeans=2x3x4x3x5:{T}@900,252,61,13,2 window=3 scale=3.0""",
            "divisive_norm_bwd n1c2h6w5 {T} nhwc window=4 scale=2.0 power=1.0",
            "divisive_norm_bwd n1c2h6w5 {T} nhwc window=4 scale=0.0 offset=0.0 power=1.5",
            """divisive_norm_bwd n1c2h6w5 {T} nhwc window=4 scale=1e-310 \
               power={-0.999 if T == f64 else -0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
#include "cells.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* means, const T* dy, Acc_T* own, Acc_T* g, T* dmeans, int items,
    int channels_inner, int behind, int ahead, Acc_T scale, Acc_T power, int quarters, Acc_T offset,
    Acc_T slope, Acc_T lift, Array<int, 3> sizes, Array<FastDiv, 4> digits, Array<i64, 5> x_strides,
    Array<i64, 5> means_strides, Array<i64, 5> dy_strides, Array<i64, 5> dmeans_strides, Acc_T alpha,
    Acc_T beta) {
    using A = Acc_T;
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    const Cell cell(item, digits, channels_inner);
    const T* plane = x + cell.plane(x_strides);
    const A mean = means ? to_acc(means[cell.offset(means_strides)]) : A(0);
    A squares = 0, sum = 0;
    Window(cell, sizes, behind, ahead).each(x_strides, x_strides, [&](i64 at, i64) {
        const A z = to_acc(plane[at]) - mean;
        squares += z * z, sum += z;
    });
    A s[1] = {offset + scale * squares}, root[1];
    Power<T>{power, quarters}.raise(s, root);
    const A mine = to_acc(dy[cell.offset(dy_strides)]) * s[0];
    const A term = term_of(mine, to_acc(plane[cell.inside(x_strides)]), root[0], lift);
    own[item] = mine, g[item] = term;
    if (dmeans) {
        A out[1] = {slope * (term * sum)};
        put(dmeans + cell.offset(dmeans_strides), out, alpha, beta);
    }
}
