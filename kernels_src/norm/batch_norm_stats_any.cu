/*@kernel
name    = "batch_norm_stats_any_{COLS}_{LANES}"
about   = """Statistics of every column over one split of the rows, x of any type: spliced code loads \
             {LANES} neighbours at once, along columns (COLS 1) or rows."""
COLS    = [0, 1]
LANES   = [1, 8]
targets = ["sm_75", "sm_80"]                  # sm_80 rounds to bf16 in one instruction
params  = ["float* parts", "int rows", "int cols", "int rows_per_split", "int splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,4> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,4> col_strides", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (5 if LANES == 1 else 3) * COLS", "1 <= rows < 2**30", "1 <= cols < 2**30"]
marks   = ["load_x"]
problems = ["""batch_norm_training n2c{16 if LANES == 8 else 5}h3w{8 if LANES == 8 else 3} f16 \
               {'nhwc' if COLS else 'nchw'}""",
            "batch_norm_training {'1300x8x2x2' if COLS else '3x2x50x336'} f16 {'nhwc' if COLS else 'nchw'}"]
@*/
// Threads as in batch_norm_stats_columns where lanes lie along columns; else a block has one column, and an
// item of the rows is LANES of them. parts[column][split].
#include "any.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    float* parts, int rows, int cols, int rows_per_split, int splits, int lanes_log2,
    Array<FastDiv, 4> row_sizes, Array<i64, 4> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 4> col_strides, Fuse fuse) {
    const AnyPlace at(lanes_log2);
    const Split split(blockIdx.y, rows_per_split, rows);
    float shift[V] = {}, s[V] = {}, q[V] = {};
    int count = 0;
    if (at.col < cols) {
        const i64 base = place(at.col, col_sizes, col_strides);
        at.walk<4>(split, [&](const auto& row) {
            constexpr int Count = sizeof(row.at) / sizeof(int);
            float x[Count][LANES];
            UNROLL for (int k = 0; k < Count; ++k)
                fuse_load_x(x[k], base + place<0, Digits>(row.at[k], row_sizes, row_strides), row.at[k],
                            at.col);
            UNROLL for (int i = 0; i < V; ++i) shift[i] = count ? shift[i] : x[0][i];
            UNROLL for (int k = 0; k < Count; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
                const float d = x[k][i] - shift[i % V];
                s[i % V] += d, q[i % V] += d * d;
            }
            count += Count;
        });
    }
    Stat<float> mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = stat_of(float(count * (LANES / V)), shift[i], s[i], q[i]);
    const Team<512> team(V << lanes_log2);
    const Stat<float> all = combine_columns(team, mine, lanes_log2);
    if (team.leads && at.first_col + team.column < cols)
        reinterpret_cast<Stat<float>*>(parts)[i64(at.first_col + team.column) * splits + blockIdx.y] = all;
}
