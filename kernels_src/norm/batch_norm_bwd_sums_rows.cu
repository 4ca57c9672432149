/*@kernel
name    = "batch_norm_bwd_sums_rows_{T}_{WIDE}_{KNOWN}"
about   = "Sums of dy and dy * (x - mean) of one column over one split of its rows; KNOWN 0 finds mean and M2 in the same pass."
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
KNOWN   = [0, 1]
params  = ["const T* x", "const T* dy", "const Acc_T* mean", "Acc_T* parts", "int items", "int items_per_split", "int splits",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,12> col_strides"]
block   = [256, 1, 1]
grid    = ["cols", "splits", 1]
extra   = ["cols"]
@*/
// Threads and items as in batch_norm_stats_rows. row_strides: x dy; col_strides: x dy mean. parts[column][split].
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* mean, acc_t<T>* parts, int items, int items_per_split, int splits,
    Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 12> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Batch = 4, Step = 256;
    using Values = Vec<T, V>;
    const Split split(blockIdx.y, items_per_split, items);
    const int column = blockIdx.x;
    x += place<0>(column, col_sizes, col_strides), dy += place<1>(column, col_sizes, col_strides);
    GradSums<A, KNOWN> sums = {};
    int count = 0;
    if (int row = split.first + threadIdx.x; row < split.last) {
        const auto load_x = [&](int r) { return Values::load(x + place<0, Digits>(r, row_sizes, row_strides)); };
        const auto load_dy = [&](int r) { return Values::load(dy + place<1, Digits>(r, row_sizes, row_strides)); };
        const auto add = [&](const Values& a, const Values& b) {
            UNROLL for (int i = 0; i < V; ++i) sums.add(to_acc(a[i]), to_acc(b[i]));
        };
        count = (split.last - row + Step - 1) / Step * V;
        if constexpr (KNOWN) sums.start(mean[place<2>(column, col_sizes, col_strides)]);
        else sums.start(to_acc(load_x(row)[0]));
        for (; row + (Batch - 1) * Step < split.last; row += Batch * Step) {
            Values a[Batch], b[Batch];
            UNROLL for (int k = 0; k < Batch; ++k) a[k] = load_x(row + k * Step), b[k] = load_dy(row + k * Step);
            UNROLL for (int k = 0; k < Batch; ++k) add(a[k], b[k]);
        }
        NO_UNROLL for (; row < split.last; row += Step) add(load_x(row), load_dy(row));
    }
    const Part mine[1] = {sums.part(count)};
    combine_columns<Step>(mine, 0, [&](int, const Part& all) {
        reinterpret_cast<Part*>(parts)[i64(column) * splits + blockIdx.y] = all;
    });
}
