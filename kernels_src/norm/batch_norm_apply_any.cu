/*@kernel
name    = "batch_norm_apply_any_{COLS}_{LANES}"
about   = """y = scale * (x - mean) * rstd + bias over one split of the rows, from parts of the statistics; \
             x and y of any type: spliced code loads and stores {LANES} neighbours at once, along columns \
             (COLS 1) or rows."""
COLS    = [0, 1]
LANES   = [1, 8]
targets = ["sm_75", "sm_80"]                  # sm_80 rounds to bf16 in one instruction
params  = ["const float* parts", "const float* scale", "const float* bias", "const float* running_mean",
           "const float* running_var", "float* mean", "float* rstd", "float* next_running_mean",
           "float* next_running_var", "Number<float> epsilon", "Number<float> factor", "float alpha",
           "int rows", "int cols", "int rows_per_split", "int splits", "int stat_splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,40> col_strides", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (5 if LANES == 1 else 3) * COLS", "1 <= rows < 2**30", "1 <= cols < 2**30"]
marks   = ["load_x", "store"]
problems = ["""batch_norm_training n2c{16 if LANES == 8 else 5}h3w{8 if LANES == 8 else 3} f16 \
               {'nhwc' if COLS else 'nchw'} \
               running_mean=1x{16 if LANES == 8 else 5}x1x1:f32 \
               running_var=1x{16 if LANES == 8 else 5}x1x1:f32 \
               next_running_mean=1x{16 if LANES == 8 else 5}x1x1:f32 \
               next_running_var=1x{16 if LANES == 8 else 5}x1x1:f32""",
            "batch_norm_training {'1300x8x2x2' if COLS else '3x2x50x336'} f16 {'nhwc' if COLS else 'nchw'}"]
@*/
// Threads as in batch_norm_stats_any, merge of the parts as in batch_norm_apply_columns. One item at a time:
// a store keeps later loads behind it, so what is under way is that of many threads.
// row_strides: x y; col_strides: in the order of `finish_column` and x y.
#include "any.cuh"
#include "finish.cuh"
#include "lib/number.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    const float* parts, const float* scale, const float* bias, const float* running_mean,
    const float* running_var, float* mean, float* rstd, float* next_running_mean, float* next_running_var,
    Number<float> epsilon, Number<float> factor, float alpha, int rows, int cols, int rows_per_split,
    int splits, int stat_splits, int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides, Fuse fuse) {
    __shared__ float centers[Widest], slopes[Widest], shifts[Widest];
    const AnyPlace at(lanes_log2);
    const Split split(blockIdx.y, rows_per_split, rows);
    const Parameters<float> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                                     next_running_var, epsilon.load(), factor.load()};
    const Team<512> team(V << lanes_log2);
    const int c = team.column, column = at.first_col + c;
    const bool leads = team.leads && column < cols, store = blockIdx.y == 0;
    Fetched<float> fetched = {};
    if (leads) fetched = fetch_column(given, column, true, store, col_sizes, col_strides);
    const i64 mine = min(column, cols - 1);         // teams beyond the last column merge it and keep silent
    const Stat<float> all = team.merged(reinterpret_cast<const Stat<float>*>(parts) + mine * stat_splits,
                                        stat_splits, 1);
    if (leads) {
        const Line<float> line = finish_column(given, fetched, column, true, all, store, col_sizes,
                                               col_strides);
        centers[c] = line.center, slopes[c] = alpha * line.slope, shifts[c] = alpha * line.shift;
    }
    __syncthreads();
    if (at.col >= cols) return;
    float center[V], slope[V], shift[V];
    UNROLL for (int i = 0; i < V; ++i) {
        const int k = at.lane * V + i;
        center[i] = centers[k], slope[i] = slopes[k], shift[i] = shifts[k];
    }
    const i64 from = place<8>(at.col, col_sizes, col_strides), to = place<9>(at.col, col_sizes, col_strides);
    at.walk<1>(split, [&](const auto& some) {
        const int row = split.back(some.at[0]);
        float x[LANES];
        fuse_load_x(x, from + place<0, Digits>(row, row_sizes, row_strides), row, at.col);
        UNROLL for (int i = 0; i < LANES; ++i) x[i] = (x[i] - center[i % V]) * slope[i % V] + shift[i % V];
        fuse_store(x, to + place<1, Digits>(row, row_sizes, row_strides), row, at.col);
    });
}
