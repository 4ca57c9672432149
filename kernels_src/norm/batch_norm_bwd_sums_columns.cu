/*@kernel
name    = "batch_norm_bwd_sums_columns_{T}_{VEC}_{KNOWN}"
about   = "Sums of dy and dy * (x - mean) of every column over one split of the rows; KNOWN 0 finds mean and M2 in the same pass."
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
KNOWN   = [0, 1]
params  = ["const T* x", "const T* dy", "const Acc_T* mean", "Acc_T* parts",
           "int rows", "int cols", "int rows_per_split", "int splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,12> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
@*/
// Threads as in batch_norm_stats_columns. row_strides: x dy; col_strides: x dy mean. parts[column][split].
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, sizeof(T) == 8 ? 1 : 2) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* mean, acc_t<T>* parts, int rows, int cols, int rows_per_split, int splits,
    int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 12> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4, Batch = 2;
    using Values = Vec<T, V>;
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2, step = 512 >> lanes_log2;
    const int first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;
    const Split split(blockIdx.y, rows_per_split, rows);
    GradSums<A, KNOWN> sums[V] = {};
    int count = 0;
    if (int row = split.first + group; col < cols && row < split.last) {
        x += place<0>(col, col_sizes, col_strides), dy += place<1>(col, col_sizes, col_strides);
        const auto load_x = [&](int r) { return Values::load(x + place<0, Digits>(r, row_sizes, row_strides)); };
        const auto load_dy = [&](int r) { return Values::load(dy + place<1, Digits>(r, row_sizes, row_strides)); };
        const auto add = [&](const Values& a, const Values& b) {
            UNROLL for (int i = 0; i < V; ++i) sums[i].add(to_acc(a[i]), to_acc(b[i]));
        };
        count = (split.last - row + step - 1) / step;
        if constexpr (KNOWN) {
            UNROLL for (int i = 0; i < V; ++i) sums[i].start(mean[place<2>(col + i, col_sizes, col_strides)]);
        } else {
            const Values v = load_x(row);
            UNROLL for (int i = 0; i < V; ++i) sums[i].start(to_acc(v[i]));
        }
        for (; row + (Batch - 1) * step < split.last; row += Batch * step) {
            Values a[Batch], b[Batch];
            UNROLL for (int k = 0; k < Batch; ++k) a[k] = load_x(row + k * step), b[k] = load_dy(row + k * step);
            UNROLL for (int k = 0; k < Batch; ++k) add(a[k], b[k]);
        }
        NO_UNROLL for (; row < split.last; row += step) add(load_x(row), load_dy(row));
    }
    Part mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = sums[i].part(count);
    combine_columns<512>(mine, lanes_log2, [&](int column, const Part& all) {
        if (first_col + column < cols)
            reinterpret_cast<Part*>(parts)[i64(first_col + column) * splits + blockIdx.y] = all;
    });
}
