/*@kernel
name    = "batch_norm_grid_{T}_{REGS}"
about   = """Batch norm training in one launch: blocks that run at once keep what they can of x in shared \
             memory and {REGS} rows a thread in registers, and meet at a barrier between the passes."""
T       = ["f32", "f16", "bf16"]
REGS    = [0, 8]
targets = ["sm_80"]
params  = ["const T* x", "float* parts", "const float* scale", "const float* bias",
           "const float* running_mean", "const float* running_var", "T* y", "float* mean", "float* rstd",
           "float* next_running_mean", "float* next_running_var", "float epsilon", "float factor",
           "float alpha", "float beta", "int rows", "int cols", "int rows_per_split", "int splits",
           "int lanes_log2", "int held", "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides",
           "Array<FastDiv,4> col_sizes", "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks * splits", 1, 1]
extra   = ["blocks"]
smem    = "held * 8192"
cooperative = true
needs   = ["1 <= lanes_log2", "lanes_log2 <= 3", "held >= 1", "rows_per_split * splits >= rows",
           "rows_per_split * (splits - 1) < rows"]
problems = ["batch_norm_training n5c{96 // sizeof(T)}h38w35 {T} nhwc",
            "batch_norm_training n2c{32 // sizeof(T)}h37w29 {T} nhwc",
            """batch_norm_training 70x2x3x2x{32 // sizeof(T)} {T} \
               x=70x2x3x2x{32 // sizeof(T)}@{800 // sizeof(T)},{352 // sizeof(T)},{112 // sizeof(T)},\
               {48 // sizeof(T)},1 mode=per_activation running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               running_var=1x2x3x2x{32 // sizeof(T)}:f32 mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               rstd=1x2x3x2x{32 // sizeof(T)}:f32 next_running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               next_running_var=1x2x3x2x{32 // sizeof(T)}:f32"""]
@*/
// A block is a column block and a split of the rows; threads as in batch_norm_stats_columns. Each leaves its
// parts for the others; behind the barrier each merges those of its own columns, in the same order, and
// applies. The blocks of split 0 store the statistics. Strides as in batch_norm_apply_columns.
#include "finish.cuh"
#include "held.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const T* x, float* parts, const float* scale, const float* bias, const float* running_mean,
    const float* running_var, T* y, float* mean, float* rstd, float* next_running_mean,
    float* next_running_var, float epsilon, float factor, float alpha, float beta, int rows, int cols,
    int rows_per_split, int splits, int lanes_log2, int held, Array<FastDiv, 4> row_sizes,
    Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides) {
    constexpr int V = 16 / int(sizeof(T)), Widest = 8 * V;
    using Values = Vec<T, V>;
    extern __shared__ uint4 stash[];
    __shared__ float centers[Widest], slopes[Widest], shifts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), step = 512 >> lanes_log2;
    const int columns = V << lanes_log2, first_col = blockIdx.x / splits * columns,
              col = first_col + lane * V;
    const int index = blockIdx.x % splits;
    const Split split(index, rows_per_split, rows);
    const int first = split.first + (threadIdx.x >> lanes_log2);
    const int count = col < cols && first < split.last ? (split.last - first + step - 1) / step : 0;
    x += place<8>(col, col_sizes, col_strides), y += place<9>(col, col_sizes, col_strides);
    const auto from = [&](int k, int) { return x + place<0, 1>(first + k * step, row_sizes, row_strides); };
    Held<512, T, 1, REGS> own(stash, held, count);
    own.start(from);

    const Parameters<float> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                                     next_running_var, epsilon, factor};
    const Team<512> team(columns);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols, store = index == 0;
    Fetched<float> fetched = {};
    if (leads) fetched = fetch_column(given, first_col + c, true, store, col_sizes, col_strides);

    float shift[V] = {}, s[V] = {}, q[V] = {};
    own.wait();
    if (count) own.stashed(0).v[0].get(shift);
    own.first_pass(from, [&](int, const Item<T, 1>& row) {
        UNROLL for (int i = 0; i < V; ++i) {
            const float d = to_acc(row.v[0][i]) - shift[i];
            s[i] += d, q[i] += d * d;
        }
    });
    Stat<float> mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = stat_of(float(count), shift[i], s[i], q[i]);
    const Stat<float> part = combine_columns(team, mine, lanes_log2);
    parts += i64(blockIdx.x - index) * columns * 2;
    if (team.leads) reinterpret_cast<float2*>(parts)[index * columns + c] = shown(part);
    const unsigned ticket = grid_arrive();
    own.start_again(from);
    grid_wait(ticket);

    const auto rows_of = [&](int s) { return float(min(rows - s * rows_per_split, rows_per_split)); };
    const Stat<float> all = merge_parts<Stat<float>>(team, parts, columns, splits, rows_of);
    if (leads) {
        const Line<float> line = finish_column(given, fetched, first_col + c, true, all, store, col_sizes,
                                               col_strides);
        centers[c] = line.center, slopes[c] = alpha * line.slope, shifts[c] = alpha * line.shift;
    }
    __syncthreads();
    if (!count) return;                                     // also the lanes beyond the last column
    float center[V], slope[V];
    UNROLL for (int i = 0; i < V; ++i)
        center[i] = centers[lane * V + i], slope[i] = slopes[lane * V + i], shift[i] = shifts[lane * V + i];
    own.second_pass(from, [&](int k, const Item<T, 1>& row) {
        T* out = y + place<1, 1>(first + k * step, row_sizes, row_strides);
        float result[V];
        UNROLL for (int i = 0; i < V; ++i)
            result[i] = (to_acc(row.v[0][i]) - center[i]) * slope[i] + shift[i];
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store(out);
    });
}
