/*@kernel
name    = "batch_norm_bwd_grid_{T}_{REGS}"
about   = """Batch norm backward in one launch: blocks that run at once keep what they can of x and dy in \
             shared memory and {REGS} rows a thread in registers, and meet at a barrier."""
T       = ["f32", "f16", "bf16"]
REGS    = [0, 4]
targets = ["sm_80"]
params  = ["const T* x", "const T* dy", "float* parts", "const float* scale", "const float* mean",
           "const float* rstd", "T* dx", "float* dscale", "float* dbias", "float epsilon", "float alpha",
           "float beta", "float alpha_param", "float beta_param", "int rows", "int cols",
           "int rows_per_split", "int splits", "int lanes_log2", "int held", "Array<FastDiv,4> row_sizes",
           "Array<int64_t,12> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,32> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks * splits", 1, 1]
extra   = ["blocks"]
smem    = "held * 16384"
cooperative = true
needs   = ["1 <= lanes_log2", "lanes_log2 <= 3", "held >= 1", "rows_per_split * splits >= rows",
           "rows_per_split * (splits - 1) < rows"]
problems = ["batch_norm_bwd n5c{96 // sizeof(T)}h37w29 {T} nhwc",
            "batch_norm_bwd n2c{32 // sizeof(T)}h37w29 {T} nhwc",
            """batch_norm_bwd 70x2x3x2x{32 // sizeof(T)} {T} \
               x=70x2x3x2x{32 // sizeof(T)}@{800 // sizeof(T)},{352 // sizeof(T)},{112 // sizeof(T)},\
               {48 // sizeof(T)},1 \
               dx=70x2x3x2x{32 // sizeof(T)}@{768 // sizeof(T)},{368 // sizeof(T)},{line(T)},\
               {32 // sizeof(T)},1 mode=per_activation"""]
@*/
// Blocks, parts and barrier as in batch_norm_grid. Strides as in batch_norm_bwd_apply_columns.
#include "grad.cuh"
#include "held.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const T* x, const T* dy, float* parts, const float* scale, const float* mean, const float* rstd, T* dx,
    float* dscale, float* dbias, float epsilon, float alpha, float beta, float alpha_param, float beta_param,
    int rows, int cols, int rows_per_split, int splits, int lanes_log2, int held,
    Array<FastDiv, 4> row_sizes, Array<i64, 12> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 32> col_strides) {
    constexpr int V = 16 / int(sizeof(T)), Widest = 8 * V;
    using Values = Vec<T, V>;
    extern __shared__ uint4 stash[];
    __shared__ float centers[Widest], slopes[Widest], offsets[Widest], tilts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), step = 512 >> lanes_log2;
    const int columns = V << lanes_log2, first_col = blockIdx.x / splits * columns,
              col = first_col + lane * V;
    const int index = blockIdx.x % splits;
    const Split split(index, rows_per_split, rows);
    const int first = split.first + (threadIdx.x >> lanes_log2);
    const int count = col < cols && first < split.last ? (split.last - first + step - 1) / step : 0;
    x += place<5>(col, col_sizes, col_strides), dy += place<6>(col, col_sizes, col_strides);
    dx += place<7>(col, col_sizes, col_strides);
    const auto from = [&](int k, int i) {
        const int row = first + k * step;
        return i == 0 ? x + place<0, 1>(row, row_sizes, row_strides)
                      : dy + place<1, 1>(row, row_sizes, row_strides);
    };
    Held<512, T, 2, REGS> own(stash, held, count);
    own.start(from);

    const Gradients<float> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param, rows};
    const Team<512> team(columns);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols;
    FetchedGrad<float> fetched = {};
    if (leads) fetched = fetch_gradient<true>(given, first_col + c, col_sizes, col_strides);

    GradSums<float, true> sums[V];
    UNROLL for (int i = 0; i < V; ++i)
        sums[i].start(count ? mean[place<1>(col + i, col_sizes, col_strides)] : 0.f);
    own.first_pass(from, [&](int, const Item<T, 2>& row) {
        UNROLL for (int i = 0; i < V; ++i) sums[i].add(to_acc(row.v[0][i]), to_acc(row.v[1][i]));
    });
    GradSum<float> mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = sums[i].part(count);
    const GradSum<float> part = combine_columns(team, mine, lanes_log2);
    parts += i64(blockIdx.x - index) * columns * 2;
    if (team.leads) reinterpret_cast<float2*>(parts)[index * columns + c] = shown(part);
    const unsigned ticket = grid_arrive();
    own.start_again(from);
    grid_wait(ticket);

    const GradSum<float> all = merge_parts<GradSum<float>>(team, parts, columns, splits,
                                                           [](int) { return 0.f; });
    if (leads) {
        const Plane<float> plane = finish_gradient(given, fetched, first_col + c, all, index == 0, col_sizes,
                                                   col_strides);
        centers[c] = plane.center, slopes[c] = alpha * plane.slope, offsets[c] = plane.offset,
        tilts[c] = plane.tilt;
    }
    __syncthreads();
    if (!count) return;                                     // also the lanes beyond the last column
    float center[V], slope[V], offset[V], tilt[V];
    UNROLL for (int i = 0; i < V; ++i) {
        const int k = lane * V + i;
        center[i] = centers[k], slope[i] = slopes[k], offset[i] = offsets[k], tilt[i] = tilts[k];
    }
    own.second_pass(from, [&](int k, const Item<T, 2>& row) {
        T* out = dx + place<2, 1>(first + k * step, row_sizes, row_strides);
        float result[V];
        UNROLL for (int i = 0; i < V; ++i)
            result[i] = slope[i] * fma(center[i] - to_acc(row.v[0][i]), tilt[i],
                                       to_acc(row.v[1][i]) - offset[i]);
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store(out);
    });
}
