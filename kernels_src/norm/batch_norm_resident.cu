/*@kernel
name    = "batch_norm_resident_{T}"
about   = """Batch norm training in one launch: a block owns some columns, \
             keeps all their rows in registers, and reads x once."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16"]             # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const Acc_T* scale", "const Acc_T* bias", "const Acc_T* running_mean",
           "const Acc_T* running_var", "T* y", "Acc_T* mean", "Acc_T* rstd", "Acc_T* next_running_mean",
           "Acc_T* next_running_var", "Acc_T epsilon", "Acc_T factor", "Acc_T alpha", "Acc_T beta",
           "int rows", "int cols", "int lanes_log2", "Array<FastDiv,4> row_sizes",
           "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", 1, 1]
extra   = ["blocks"]
needs   = ["rows <= 8 * (512 >> lanes_log2)", "lanes_log2 <= 3"]
problems = ["""batch_norm_training n2c24h3w3 {T} nhwc running_mean=1x24x1x1:f32 running_var=1x24x1x1:f32 \
               next_running_mean=1x24x1x1:f32 next_running_var=1x24x1x1:f32""",
            """batch_norm_training 70x2x3x2x{32 // sizeof(T)} {T} \
               x=70x2x3x2x{32 // sizeof(T)}@{800 // sizeof(T)},{352 // sizeof(T)},{112 // sizeof(T)},\
               {48 // sizeof(T)},1 mode=per_activation running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               running_var=1x2x3x2x{32 // sizeof(T)}:f32 mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               rstd=1x2x3x2x{32 // sizeof(T)}:f32 next_running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               next_running_var=1x2x3x2x{32 // sizeof(T)}:f32""",
            "batch_norm_training n7c{48 // sizeof(T)}h17w17 {T} nhwc"]
@*/
// Threads as in batch_norm_stats_columns (V columns of 16 bytes, 512 >> lanes_log2 groups of rows), at
// most 8 rows each. The variance of a thread's rows is two exact passes over its registers. Strides as in
// batch_norm_apply_columns.
#include "finish.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const T* x, const acc_t<T>* scale, const acc_t<T>* bias, const acc_t<T>* running_mean,
    const acc_t<T>* running_var, T* y, acc_t<T>* mean, acc_t<T>* rstd, acc_t<T>* next_running_mean,
    acc_t<T>* next_running_var, acc_t<T> epsilon, acc_t<T> factor, acc_t<T> alpha, acc_t<T> beta, int rows,
    int cols, int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides) {
    using A = acc_t<T>;
    constexpr int V = 16 / int(sizeof(T)), Most = 8, Widest = 8 * V;
    using Values = Vec<T, V>;
    __shared__ A centers[Widest], slopes[Widest], shifts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;

    const int count = col < cols && group < rows ? (rows - group + step - 1) / step : 0;
    x += place<8>(col, col_sizes, col_strides), y += place<9>(col, col_sizes, col_strides);
    Values v[Most];
    UNROLL for (int b = 0; b < Most; ++b)
        if (b < count) v[b] = Values::load(x + place<0, 1>(group + b * step, row_sizes, row_strides));
    const Parameters<A> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                                 next_running_var, epsilon, factor};
    const Team<512> team(V << lanes_log2);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols;
    Fetched<A> fetched = {};
    if (leads) fetched = fetch_column(given, first_col + c, true, true, col_sizes, col_strides);
    Stat<A> mine[V];
    UNROLL for (int i = 0; i < V; ++i) {
        A sum = 0, m2 = 0;
        UNROLL for (int b = 0; b < Most; ++b) sum += b < count ? to_acc(v[b][i]) : A(0);
        const A average = count ? sum / count : A(0);
        UNROLL for (int b = 0; b < Most; ++b) {
            const A d = b < count ? to_acc(v[b][i]) - average : A(0);
            m2 += d * d;
        }
        mine[i] = {A(count), average, m2};
    }
    const Stat<A> all = combine_columns(team, mine, lanes_log2);
    if (leads) {
        const Line<A> line = finish_column(given, fetched, first_col + c, true, all, true, col_sizes,
                                           col_strides);
        centers[c] = line.center, slopes[c] = alpha * line.slope, shifts[c] = alpha * line.shift;
    }
    __syncthreads();
    if (!count) return;
    A center[V], slope[V], shift[V];
    UNROLL for (int i = 0; i < V; ++i)
        center[i] = centers[lane * V + i], slope[i] = slopes[lane * V + i], shift[i] = shifts[lane * V + i];
    UNROLL for (int b = 0; b < Most; ++b) {
        if (b >= count) break;
        T* out = y + place<1, 1>(group + b * step, row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[b][i]) - center[i]) * slope[i] + shift[i];
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store(out);
    }
}
