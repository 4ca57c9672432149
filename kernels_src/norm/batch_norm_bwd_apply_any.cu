/*@kernel
name    = "batch_norm_bwd_apply_any_{COLS}_{LANES}_{KNOWN}"
about   = """dx of batch norm over one split of the rows, from parts of the sums; x, dy and dx of any type: \
             spliced code loads and stores {LANES} neighbours at once, along columns (COLS 1) or rows."""
COLS    = [0, 1]
LANES   = [1, 8]
KNOWN   = [0, 1]
targets = ["sm_75", "sm_80"]                  # sm_80 rounds to bf16 in one instruction
params  = ["const float* parts", "const float* scale", "const float* mean", "const float* rstd",
           "float* dscale", "float* dbias", "float epsilon", "float alpha", "float alpha_param",
           "float beta_param", "int rows", "int cols", "int rows_per_split", "int splits", "int stat_splits",
           "int lanes_log2", "int samples", "Array<FastDiv,4> row_sizes", "Array<int64_t,12> row_strides",
           "Array<FastDiv,4> col_sizes", "Array<int64_t,32> col_strides", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (5 if LANES == 1 else 3) * COLS", "1 <= rows < 2**30", "1 <= cols < 2**30"]
marks   = ["load_x", "load_dy", "store"]
problems = ["""batch_norm_bwd n2c{16 if LANES == 8 else 5}h3w{8 if LANES == 8 else 3} f16 \
               {'nhwc' if COLS else 'nchw'} {'' if KNOWN else 'mean=none rstd=none'}""",
            """batch_norm_bwd {'1300x8x2x2' if COLS else '3x2x50x336'} f16 {'nhwc' if COLS else 'nchw'} \
               {'' if KNOWN else 'mean=none rstd=none'}"""]
@*/
// Threads as in batch_norm_stats_any, merge of the parts as in batch_norm_apply_columns.
// row_strides: x dy dx; col_strides: in the order of `finish_gradient` and x dy dx.
#include "any.cuh"
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, 2) void KERNEL(
    const float* parts, const float* scale, const float* mean, const float* rstd, float* dscale, float* dbias,
    float epsilon, float alpha, float alpha_param, float beta_param, int rows, int cols, int rows_per_split,
    int splits, int stat_splits, int lanes_log2, int samples, Array<FastDiv, 4> row_sizes,
    Array<i64, 12> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 32> col_strides, Fuse fuse) {
    using Part = typename GradSums<float, KNOWN>::Part;
    __shared__ float centers[Widest], slopes[Widest], offsets[Widest], tilts[Widest];
    const AnyPlace at(lanes_log2);
    const Split split(blockIdx.y, rows_per_split, rows);
    const Gradients<float> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param,
                                    samples};
    const Team<512> team(V << lanes_log2);
    const int c = team.column, column = at.first_col + c;
    const bool leads = team.leads && column < cols;
    FetchedGrad<float> fetched = {};
    if (leads) fetched = fetch_gradient<KNOWN>(given, column, col_sizes, col_strides);
    const i64 mine = min(column, cols - 1);         // teams beyond the last column merge it and keep silent
    const Part all = team.merged(reinterpret_cast<const Part*>(parts) + mine * stat_splits, stat_splits, 1);
    if (leads) {
        const Plane<float> plane = finish_gradient(given, fetched, column, all, blockIdx.y == 0, col_sizes,
                                                   col_strides);
        centers[c] = plane.center, slopes[c] = alpha * plane.slope, offsets[c] = plane.offset;
        tilts[c] = plane.tilt;
    }
    __syncthreads();
    if (at.col >= cols) return;
    const i64 from_x = place<5>(at.col, col_sizes, col_strides),
              from_dy = place<6>(at.col, col_sizes, col_strides),
              to = place<7>(at.col, col_sizes, col_strides);
    const int first = at.lane * V;
    at.walk<1>(split, [&](const auto& some) {
        const int row = split.back(some.at[0]);
        float x[LANES], dy[LANES];
        fuse_load_x(x, from_x + place<0, Digits>(row, row_sizes, row_strides), row, at.col);
        fuse_load_dy(dy, from_dy + place<1, Digits>(row, row_sizes, row_strides), row, at.col);
        UNROLL for (int i = 0; i < LANES; ++i) {
            const int k = first + i % V;
            dy[i] = slopes[k] * fma(centers[k] - x[i], tilts[k], dy[i] - offsets[k]);
        }
        fuse_store(dy, to + place<2, Digits>(row, row_sizes, row_strides), row, at.col);
    });
}
