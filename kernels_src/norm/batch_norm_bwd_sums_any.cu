/*@kernel
name    = "batch_norm_bwd_sums_any_{COLS}_{LANES}_{KNOWN}"
about   = """Sums of dy and dy * (x - mean) of every column over one split of the rows, x and dy of any \
             type: spliced code loads {LANES} neighbours at once, along columns (COLS 1) or rows. \
             KNOWN 0 finds mean and M2 in the same pass."""
COLS    = [0, 1]
LANES   = [1, 8]
KNOWN   = [0, 1]
targets = ["sm_75", "sm_80"]                  # sm_80 rounds to bf16 in one instruction
params  = ["const float* mean", "float* parts", "int rows", "int cols", "int rows_per_split", "int splits",
           "int lanes_log2", "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides",
           "Array<FastDiv,4> col_sizes", "Array<int64_t,12> col_strides", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (5 if LANES == 1 else 3) * COLS", "1 <= rows < 2**30", "1 <= cols < 2**30"]
marks   = ["load_x", "load_dy"]
problems = ["""batch_norm_bwd n2c{16 if LANES == 8 else 5}h3w{8 if LANES == 8 else 3} f16 \
               {'nhwc' if COLS else 'nchw'} {'' if KNOWN else 'mean=none rstd=none'}""",
            """batch_norm_bwd {'1300x8x2x2' if COLS else '3x2x50x336'} f16 {'nhwc' if COLS else 'nchw'} \
               {'' if KNOWN else 'mean=none rstd=none'}"""]
@*/
// Threads as in batch_norm_stats_any. Spliced code may store what it makes of dy, which the second launch
// then reads. row_strides: x dy; col_strides: x dy mean. parts[column][split].
#include "any.cuh"
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    const float* mean, float* parts, int rows, int cols, int rows_per_split, int splits, int lanes_log2,
    Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 12> col_strides, Fuse fuse) {
    using Part = typename GradSums<float, KNOWN>::Part;
    const AnyPlace at(lanes_log2);
    const Split split(blockIdx.y, rows_per_split, rows);
    GradSums<float, KNOWN> sums[V] = {};
    int count = 0;
    if (at.col < cols) {
        const i64 base_x = place<0>(at.col, col_sizes, col_strides),
                  base_dy = place<1>(at.col, col_sizes, col_strides);
        if constexpr (KNOWN)
            UNROLL for (int i = 0; i < V; ++i)
                sums[i].start(mean[place<2>(at.col + i, col_sizes, col_strides)]);
        at.walk<(KNOWN ? 2 : 1)>(split, [&](const auto& row) {
            constexpr int Count = sizeof(row.at) / sizeof(int);
            float x[Count][LANES], dy[Count][LANES];
            UNROLL for (int k = 0; k < Count; ++k) {
                fuse_load_x(x[k], base_x + place<0, Digits>(row.at[k], row_sizes, row_strides), row.at[k],
                            at.col);
                fuse_load_dy(dy[k], base_dy + place<1, Digits>(row.at[k], row_sizes, row_strides), row.at[k],
                             at.col);
            }
            if constexpr (!KNOWN)
                UNROLL for (int i = 0; i < V; ++i) sums[i].center = count ? sums[i].center : x[0][i];
            UNROLL for (int k = 0; k < Count; ++k)
                UNROLL for (int i = 0; i < LANES; ++i) sums[i % V].add(x[k][i], dy[k][i]);
            count += Count;
        });
    }
    Part mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = sums[i].part(count * (LANES / V));
    const Team<512> team(V << lanes_log2);
    const Part all = combine_columns(team, mine, lanes_log2);
    if (team.leads && at.first_col + team.column < cols)
        reinterpret_cast<Part*>(parts)[i64(at.first_col + team.column) * splits + blockIdx.y] = all;
}
