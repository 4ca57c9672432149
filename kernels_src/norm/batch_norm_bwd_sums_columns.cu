/*@kernel
name    = "batch_norm_bwd_sums_columns_{T}_{VEC}_{KNOWN}"
about   = """Sums of dy and dy * (x - mean) of every column over one split of the rows; \
             KNOWN 0 finds mean and M2 in the same pass."""
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
KNOWN   = [0, 1]
params  = ["const T* x", "const T* dy", "const Acc_T* mean", "Acc_T* parts",
           "int rows", "int cols", "int rows_per_split", "int splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,12> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (3 if VEC else 5)"]
problems = ["batch_norm_bwd n2c{16 if VEC else 5}h3w3 {T} nhwc {'' if KNOWN else 'mean=none rstd=none'}",
            """batch_norm_bwd 70x2x3x2x{32 // sizeof(T) if VEC else 5} {T} \
               x=70x2x3x2x{32 // sizeof(T) if VEC else 5}\
               @{800 // sizeof(T) if VEC else 90},{352 // sizeof(T) if VEC else 41},\
               {112 // sizeof(T) if VEC else 13},{48 // sizeof(T) if VEC else 6},1 \
               dx=70x2x3x2x{32 // sizeof(T) if VEC else 5}\
               @{768 // sizeof(T) if VEC else 70},{368 // sizeof(T) if VEC else 33},\
               {128 // sizeof(T) if VEC else 11},{32 // sizeof(T) if VEC else 5},1 mode=per_activation \
               {'' if KNOWN else 'mean=none rstd=none'}""",
            """batch_norm_bwd {14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5} {T} \
               x={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}\
               @{105 * 96 // sizeof(T) if VEC else 5000},1,{35 * 96 // sizeof(T) if VEC else 1600},\
               {7 * 96 // sizeof(T) if VEC else 300},{1 * 96 // sizeof(T) if VEC else 41} \
               dy={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}@nhwc \
               dx={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}\
               @{105 * 112 // sizeof(T) if VEC else 4300},1,{35 * 112 // sizeof(T) if VEC else 1400},\
               {7 * 112 // sizeof(T) if VEC else 270},{1 * 112 // sizeof(T) if VEC else 38} \
               {'' if KNOWN else 'mean=none rstd=none'}"""]
@*/
// Threads as in batch_norm_stats_columns. row_strides: x dy; col_strides: x dy mean. parts[column][split].
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, VEC || sizeof(T) == 8 ? 1 : 2) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* mean, acc_t<T>* parts, int rows, int cols, int rows_per_split,
    int splits, int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 12> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4;
    using Values = Vec<T, V>;
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;
    const Split split(blockIdx.y, rows_per_split, rows);
    struct Pair { Values x, dy; };
    GradSums<A, KNOWN> sums[V] = {};
    int count = 0;
    if (int row = split.first + group; col < cols && row < split.last) {
        x += place<0>(col, col_sizes, col_strides), dy += place<1>(col, col_sizes, col_strides);
        const auto load = [&](int r) -> Pair {
            return {Values::load(x + place<0, Digits>(r, row_sizes, row_strides)),
                    Values::load(dy + place<1, Digits>(r, row_sizes, row_strides))};
        };
        const auto add = [&](int, const Pair& v) {
            UNROLL for (int i = 0; i < V; ++i) sums[i].add(to_acc(v.x[i]), to_acc(v.dy[i]));
        };
        Window<VEC ? 4 : 2, 1, Pair> window;
        window.start(row, split.last, step, load);
        count = (split.last - row + step - 1) / step;
        if constexpr (KNOWN) {
            UNROLL for (int i = 0; i < V; ++i) sums[i].start(mean[place<2>(col + i, col_sizes, col_strides)]);
        } else {
            UNROLL for (int i = 0; i < V; ++i) sums[i].start(to_acc(window.item[0][0].x[i]));
        }
        window.run(row, split.last, step, load, add);
    }
    Part mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = sums[i].part(count);
    const Team<512> team(V << lanes_log2);
    const Part all = combine_columns(team, mine, lanes_log2);
    if (team.leads && first_col + team.column < cols)
        reinterpret_cast<Part*>(parts)[i64(first_col + team.column) * splits + blockIdx.y] = all;
}
