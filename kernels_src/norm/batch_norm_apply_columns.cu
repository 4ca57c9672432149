/*@kernel
name    = "batch_norm_apply_columns_{T}_{VEC}"
about   = """y = scale * (x - mean) * rstd + bias over one split of the rows, \
             from parts of the statistics or from given ones; lanes along columns."""
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16"]             # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const Acc_T* parts", "const Acc_T* scale", "const Acc_T* bias",
           "const Acc_T* running_mean", "const Acc_T* running_var", "T* y", "Acc_T* mean", "Acc_T* rstd",
           "Acc_T* next_running_mean", "Acc_T* next_running_var", "Number<Acc_T> epsilon",
           "Number<Acc_T> factor", "Acc_T alpha", "Acc_T beta", "int rows", "int cols",
           "int rows_per_split", "int splits", "int stat_splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (3 if VEC else 5)"]
problems = ["""batch_norm_training n2c{16 if VEC else 5}h3w3 {T} nhwc \
               running_mean=1x{16 if VEC else 5}x1x1:{'f64' if T == f64 else 'f32'} \
               running_var=1x{16 if VEC else 5}x1x1:{'f64' if T == f64 else 'f32'} \
               next_running_mean=1x{16 if VEC else 5}x1x1:{'f64' if T == f64 else 'f32'} \
               next_running_var=1x{16 if VEC else 5}x1x1:{'f64' if T == f64 else 'f32'}""",
            "batch_norm_inference n2c{16 if VEC else 5}h3w3 {T} nhwc",
            """batch_norm_training 70x2x3x2x{32 // sizeof(T) if VEC else 5} {T} \
               x=70x2x3x2x{32 // sizeof(T) if VEC else 5}\
               @{800 // sizeof(T) if VEC else 90},{352 // sizeof(T) if VEC else 41},\
               {112 // sizeof(T) if VEC else 13},{48 // sizeof(T) if VEC else 6},1 mode=per_activation \
               running_mean=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'} \
               running_var=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'} \
               mean=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'} \
               rstd=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'} \
               next_running_mean=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'} \
               next_running_var=1x2x3x2x{32 // sizeof(T) if VEC else 5}:{'f64' if T == f64 else 'f32'}""",
            """batch_norm_training \
               {14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5} {T} \
               x={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}\
               @{105 * 96 // sizeof(T) if VEC else 5000},1,{35 * 96 // sizeof(T) if VEC else 1600},\
               {7 * 96 // sizeof(T) if VEC else 300},{1 * 96 // sizeof(T) if VEC else 41} \
               y={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}@nhwc"""]
@*/
// Threads as in batch_norm_stats_columns. Every block first merges the parts of its own columns (small, from
// L2), so no launch is spent on that; x and the parameters are on their way meanwhile. The blocks of
// split 0 store the statistics. Without parts (inference) mean and variance are running_mean and running_var.
// row_strides: x y; col_strides: in the order of `finish_column` and x y.
#include "finish.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(512, VEC ? 1 : 2) void KERNEL(
    const T* x, const acc_t<T>* parts, const acc_t<T>* scale, const acc_t<T>* bias,
    const acc_t<T>* running_mean, const acc_t<T>* running_var, T* y, acc_t<T>* mean, acc_t<T>* rstd,
    acc_t<T>* next_running_mean, acc_t<T>* next_running_var, Number<acc_t<T>> epsilon,
    Number<acc_t<T>> factor, acc_t<T> alpha, acc_t<T> beta, int rows, int cols, int rows_per_split,
    int splits, int stat_splits, int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides) {
    using A = acc_t<T>;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4, Slots = VEC ? 4 : 2,
                  Widest = VEC ? 8 * V : 32;
    using Values = Vec<T, V>;
    __shared__ A centers[Widest], slopes[Widest], shifts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int count = V << lanes_log2, first_col = blockIdx.x * count, col = first_col + lane * V;

    const Split split(blockIdx.y, rows_per_split, rows);
    const int row = split.first + group, last = col < cols ? split.last : 0;
    x += place<8>(col, col_sizes, col_strides), y += place<9>(col, col_sizes, col_strides);
    const auto load = [&](int r) {
        return Values::load(x + place<0, Digits>(split.back(r), row_sizes, row_strides));
    };
    Window<Slots, 2, Values> window;
    window.start(row, last, step, load);

    Parameters<A> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                           next_running_var, 0, factor.load()};
    const Team<512> team(count);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols, store = blockIdx.y == 0;
    Fetched<A> fetched = {};
    if (leads) fetched = fetch_column(given, first_col + c, parts != nullptr, store, col_sizes, col_strides);
    Stat<A> all = {};
    if (parts) {
        // Teams beyond the last column merge it and keep silent.
        const i64 mine = min(first_col + c, cols - 1);
        all = team.template merged<(VEC ? 8 : 2)>(
            reinterpret_cast<const Stat<A>*>(parts) + mine * stat_splits, stat_splits, 1);
    }
    if (leads) {
        // Read again: there are no registers to keep a number in while parts are merged.
        given.epsilon = epsilon.load(), given.factor = factor.load();
        const Line<A> line = finish_column(given, fetched, first_col + c, parts != nullptr, all, store,
                                           col_sizes, col_strides);
        centers[c] = line.center, slopes[c] = alpha * line.slope, shifts[c] = alpha * line.shift;
    }
    __syncthreads();
    if (row >= last) return;                                // also the lanes beyond the last column
    A center[V], slope[V], shift[V];
    UNROLL for (int i = 0; i < V; ++i)
        center[i] = centers[lane * V + i], slope[i] = slopes[lane * V + i], shift[i] = shifts[lane * V + i];
    const auto apply = [&](int r, const Values& v) {
        T* out = y + place<1, Digits>(split.back(r), row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[i]) - center[i]) * slope[i] + shift[i];
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store_stream(out);                   // leave the rest of x in L2
    };
    window.run(row, last, step, load, apply);
}
