/*@kernel
name    = "batch_norm_stats_rows_{T}_{WIDE}"
about   = "Count, mean and M2 of one column over one split of its rows; lanes run along the rows (planes contiguous)."
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
params  = ["const T* x", "Acc_T* parts", "int items", "int items_per_split", "int splits",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,4> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,4> col_strides"]
block   = [256, 1, 1]
grid    = ["cols", "splits", 1]
extra   = ["cols"]
@*/
// An item is V rows that are neighbours in memory (WIDE bytes; WIDE 0: one row); row_sizes and row_strides count items.
// Every thread keeps shifted sums of every 256th item of the split. parts[column][split] goes to the next launch.
#include "moments.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, acc_t<T>* parts, int items, int items_per_split, int splits, Array<FastDiv, 4> row_sizes,
    Array<i64, 4> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 4> col_strides) {
    using A = acc_t<T>;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Batch = 4, Step = 256;
    using Values = Vec<T, V>;
    const Split split(blockIdx.y, items_per_split, items);
    x += place(blockIdx.x, col_sizes, col_strides);
    const auto at = [&](int r) { return Values::load(x + place<0, Digits>(r, row_sizes, row_strides)); };
    A shift = 0, s = 0, q = 0, count = 0;
    if (int row = split.first + threadIdx.x; row < split.last) {
        const auto add = [&](const Values& v) {
            UNROLL for (int i = 0; i < V; ++i) {
                const A d = to_acc(v[i]) - shift;
                s += d, q += d * d;
            }
        };
        count = A((split.last - row + Step - 1) / Step) * V;
        shift = to_acc(at(row)[0]);
        for (; row + (Batch - 1) * Step < split.last; row += Batch * Step) {
            Values v[Batch];
            UNROLL for (int b = 0; b < Batch; ++b) v[b] = at(row + b * Step);
            UNROLL for (int b = 0; b < Batch; ++b) add(v[b]);
        }
        NO_UNROLL for (; row < split.last; row += Step) add(at(row));
    }
    const Stat<A> mine[1] = {stat_of(count, shift, s, q)};
    combine_columns<Step>(mine, 0, [&](int, const Stat<A>& all) {
        reinterpret_cast<Stat<A>*>(parts)[i64(blockIdx.x) * splits + blockIdx.y] = all;
    });
}
