/*@kernel
name    = "batch_norm_apply_columns_{T}_{VEC}"
about   = "y = scale * (x - mean) * rstd + bias over one split of the rows, from parts of the statistics or from given ones; lanes along columns."
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16"]             # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const Acc_T* parts", "const Acc_T* scale", "const Acc_T* bias", "const Acc_T* running_mean", "const Acc_T* running_var",
           "T* y", "Acc_T* mean", "Acc_T* rstd", "Acc_T* next_running_mean", "Acc_T* next_running_var",
           "Acc_T epsilon", "Acc_T factor", "Acc_T alpha", "Acc_T beta",
           "int rows", "int cols", "int rows_per_split", "int splits", "int stat_splits", "int reverse", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
@*/
// Threads as in batch_norm_stats_columns. Every block first merges the parts of its own columns (small, from L2), so no
// launch is spent on that; the blocks of split 0 store the statistics. Without parts (inference) mean and variance are
// running_mean and running_var. row_strides: x y; col_strides: in the order of `finish_column` and x y.
#include "finish.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    const T* x, const acc_t<T>* parts, const acc_t<T>* scale, const acc_t<T>* bias, const acc_t<T>* running_mean,
    const acc_t<T>* running_var, T* y, acc_t<T>* mean, acc_t<T>* rstd, acc_t<T>* next_running_mean,
    acc_t<T>* next_running_var, acc_t<T> epsilon, acc_t<T> factor, acc_t<T> alpha, acc_t<T> beta, int rows, int cols,
    int rows_per_split, int splits, int stat_splits, int reverse, int lanes_log2,
    Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides) {
    using A = acc_t<T>;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4, Batch = 4, Widest = 32 * V;
    using Values = Vec<T, V>;
    __shared__ A centers[Widest], slopes[Widest], shifts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2, step = 512 >> lanes_log2;
    const int count = V << lanes_log2, first_col = blockIdx.x * count, col = first_col + lane * V;

    const Parameters<A> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean, next_running_var,
                                 epsilon, factor};
    const auto keep = [&](int column, const Stat<A>* stat) {
        const Line<A> line = finish_column(given, first_col + column, stat, blockIdx.y == 0, col_sizes, col_strides);
        centers[column] = line.center, slopes[column] = alpha * line.slope, shifts[column] = alpha * line.shift;
    };
    if (parts)
        combine_splits<512>(reinterpret_cast<const Stat<A>*>(parts), stat_splits, first_col, count, cols,
                            [&](int column, const Stat<A>& all) { keep(column, &all); });
    else if (threadIdx.x < count && first_col + threadIdx.x < cols)
        keep(threadIdx.x, nullptr);
    __syncthreads();

    const Split split(blockIdx.y, rows_per_split, rows, reverse);
    int row = split.first + group;
    if (col >= cols || row >= split.last) return;
    A center[V], slope[V], shift[V];
    UNROLL for (int i = 0; i < V; ++i)
        center[i] = centers[lane * V + i], slope[i] = slopes[lane * V + i], shift[i] = shifts[lane * V + i];
    x += place<8>(col, col_sizes, col_strides), y += place<9>(col, col_sizes, col_strides);
    const auto load = [&](int r) { return Values::load(x + place<0, Digits>(split.at(r), row_sizes, row_strides)); };
    const auto apply = [&](int r, const Values& v) {
        T* out = y + place<1, Digits>(split.at(r), row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[i]) - center[i]) * slope[i] + shift[i];
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store(out);
    };
    for (; row + (Batch - 1) * step < split.last; row += Batch * step) {
        Values v[Batch];
        UNROLL for (int b = 0; b < Batch; ++b) v[b] = load(row + b * step);
        UNROLL for (int b = 0; b < Batch; ++b) apply(row + b * step, v[b]);
    }
    NO_UNROLL for (; row < split.last; row += step) apply(row, load(row));
}
