/*@kernel
name    = "gen_stats_any_{COLS}_{LANES}"
about   = """Sums of x and of its squares of every column over one split of the rows, x of any type: spliced \
             code loads {LANES} neighbours at once, along columns (COLS 1) or rows."""
COLS    = [0, 1]
LANES   = [1, 8]
targets = ["sm_75", "sm_80"]                  # sm_80 rounds to bf16 in one instruction
params  = ["float* part", "int rows", "int cols", "int rows_per_split", "int splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,4> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,4> col_strides", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (5 if LANES == 1 else 3) * COLS", "1 <= rows < 2**30", "1 <= cols < 2**30"]
marks   = ["load_x"]
problems = ["gen_stats x=2x{16 if LANES == 8 else 5}x3x{8 if LANES == 8 else 3}:f16{'@nhwc' if COLS else ''}",
            "gen_stats x={'1300x8x2x2:f16@nhwc' if COLS else '3x2x50x336:f16'}"]
@*/
// Threads as in batch_norm_stats_any; part[split][sum, sum of squares][column] is what norm_bwd_sums adds.
#include "any.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    float* part, int rows, int cols, int rows_per_split, int splits, int lanes_log2,
    Array<FastDiv, 4> row_sizes, Array<i64, 4> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 4> col_strides, Fuse fuse) {
    const AnyPlace at(lanes_log2);
    const Split split(blockIdx.y, rows_per_split, rows);
    GradSum<float> mine[V] = {};
    if (at.col < cols) {
        const i64 base = place(at.col, col_sizes, col_strides);
        at.walk<4>(split, [&](const auto& row) {
            constexpr int Count = sizeof(row.at) / sizeof(int);
            float x[Count][LANES];
            UNROLL for (int k = 0; k < Count; ++k)
                fuse_load_x(x[k], base + place<0, Digits>(row.at[k], row_sizes, row_strides), row.at[k],
                            at.col);
            UNROLL for (int k = 0; k < Count; ++k) UNROLL for (int i = 0; i < LANES; ++i)
                mine[i % V] = {mine[i % V].sum + x[k][i], fma(x[k][i], x[k][i], mine[i % V].dot)};
        });
    }
    const Team<512> team(V << lanes_log2);
    const GradSum<float> all = combine_columns(team, mine, lanes_log2);
    const int column = at.first_col + team.column;
    if (!team.leads || column >= cols) return;
    part += i64(blockIdx.y) * 2 * cols + column;
    part[0] = all.sum, part[cols] = all.dot;
}
