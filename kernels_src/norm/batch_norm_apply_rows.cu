/*@kernel
name    = "batch_norm_apply_rows_{T}_{WIDE}"
about   = """y = scale * (x - mean) * rstd + bias for one split of the rows of one column; \
             lanes along the rows."""
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16", "WIDE != 8 or T != f64"]      # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const Acc_T* parts", "const Acc_T* scale", "const Acc_T* bias",
           "const Acc_T* running_mean", "const Acc_T* running_var", "T* y", "Acc_T* mean", "Acc_T* rstd",
           "Acc_T* next_running_mean", "Acc_T* next_running_var", "Number<Acc_T> epsilon",
           "Number<Acc_T> factor", "Acc_T alpha", "Acc_T beta", "int items",
           "int items_per_split", "int splits", "int stat_splits",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,40> col_strides"]
block   = [256, 1, 1]
grid    = ["cols", "splits", 1]
extra   = ["cols"]
problems = ["""batch_norm_training n3c2h1w{301 * WIDE // sizeof(T) if WIDE else 301} {T} \
               running_mean=1x2x1x1:{'f64' if T == f64 else 'f32'} \
               running_var=1x2x1x1:{'f64' if T == f64 else 'f32'} \
               next_running_mean=1x2x1x1:{'f64' if T == f64 else 'f32'} \
               next_running_var=1x2x1x1:{'f64' if T == f64 else 'f32'}""",
            "batch_norm_inference n3c2h1w{301 * WIDE // sizeof(T) if WIDE else 301} {T}",
            """batch_norm_training {41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2 {T} \
               x={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{650 * WIDE // sizeof(T) if WIDE else 560},{210 * WIDE // sizeof(T) if WIDE else 180},\
               {100 * WIDE // sizeof(T) if WIDE else 90},{48 * WIDE // sizeof(T) if WIDE else 44} \
               y={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{492 * WIDE // sizeof(T) if WIDE else 516},{164 * WIDE // sizeof(T) if WIDE else 172},\
               {82 * WIDE // sizeof(T) if WIDE else 86},{41 * WIDE // sizeof(T) if WIDE else 43} \
               mode=per_activation running_mean=1x2x3x2x2:{'f64' if T == f64 else 'f32'} \
               running_var=1x2x3x2x2:{'f64' if T == f64 else 'f32'} \
               mean=1x2x3x2x2:{'f64' if T == f64 else 'f32'} rstd=1x2x3x2x2:{'f64' if T == f64 else 'f32'} \
               next_running_mean=1x2x3x2x2:{'f64' if T == f64 else 'f32'} \
               next_running_var=1x2x3x2x2:{'f64' if T == f64 else 'f32'}""",
            """batch_norm_training 39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15} {T} \
               x=39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15}\
               @{470 * WIDE // sizeof(T) if WIDE else 600},{232 * WIDE // sizeof(T) if WIDE else 270},\
               {75 * WIDE // sizeof(T) if WIDE else 85},{15 * WIDE // sizeof(T) if WIDE else 16},1"""]
@*/
// Threads as in batch_norm_stats_rows; parts, inference and strides as in batch_norm_apply_columns.
#include "finish.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, const acc_t<T>* parts, const acc_t<T>* scale, const acc_t<T>* bias,
    const acc_t<T>* running_mean, const acc_t<T>* running_var, T* y, acc_t<T>* mean, acc_t<T>* rstd,
    acc_t<T>* next_running_mean, acc_t<T>* next_running_var, Number<acc_t<T>> epsilon,
    Number<acc_t<T>> factor, acc_t<T> alpha, acc_t<T> beta, int items, int items_per_split, int splits,
    int stat_splits, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 40> col_strides) {
    using A = acc_t<T>;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Slots = WIDE ? 2 : 1,
                  Step = 256;
    using Values = Vec<T, V>;
    __shared__ Line<A> shared_line;
    const int column = blockIdx.x;
    const Split split(blockIdx.y, items_per_split, items);
    const int row = split.first + threadIdx.x;
    x += place<8>(column, col_sizes, col_strides), y += place<9>(column, col_sizes, col_strides);
    const auto load = [&](int r) {
        return Values::load(x + place<0, Digits>(split.back(r), row_sizes, row_strides));
    };
    Window<Slots, 2, Values> window;
    window.start(row, split.last, Step, load);

    Parameters<A> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                           next_running_var, 0, factor.load()};
    const Team<Step> team(1);
    const bool store = blockIdx.y == 0;
    Fetched<A> fetched = {};
    if (team.leads) fetched = fetch_column(given, column, parts != nullptr, store, col_sizes, col_strides);
    Stat<A> all = {};
    if (parts) all = team.template merged<2>(
        reinterpret_cast<const Stat<A>*>(parts) + i64(column) * stat_splits, stat_splits, 1);
    if (team.leads) {
        // Read again: there are no registers to keep a number in while parts are merged.
        given.epsilon = epsilon.load(), given.factor = factor.load();
        shared_line = finish_column(given, fetched, column, parts != nullptr, all, store, col_sizes,
                                    col_strides);
    }
    __syncthreads();
    const A center = shared_line.center, slope = alpha * shared_line.slope, shift = alpha * shared_line.shift;

    const auto apply = [&](int r, const Values& v) {
        T* out = y + place<1, Digits>(split.back(r), row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[i]) - center) * slope + shift;
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store_stream(out);                   // leave the rest of x in L2
    };
    window.run(row, split.last, Step, load, apply);
}
