/*@kernel
name    = "batch_norm_bwd_sums_rows_{T}_{WIDE}_{KNOWN}"
about   = """Sums of dy and dy * (x - mean) of one column over one split of its rows; \
             KNOWN 0 finds mean and M2 in the same pass."""
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
when    = ["WIDE != 8 or T != f64"]
KNOWN   = [0, 1]
params  = ["const T* x", "const T* dy", "const Acc_T* mean", "Acc_T* parts", "int items",
           "int items_per_split", "int splits", "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides",
           "Array<FastDiv,4> col_sizes", "Array<int64_t,12> col_strides"]
block   = [256, 1, 1]
grid    = ["cols", "splits", 1]
extra   = ["cols"]
problems = ["""batch_norm_bwd n3c2h1w{301 * WIDE // sizeof(T) if WIDE else 301} {T} \
               {'' if KNOWN else 'mean=none rstd=none'}""",
            """batch_norm_bwd {41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2 {T} \
               x={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{650 * WIDE // sizeof(T) if WIDE else 560},{210 * WIDE // sizeof(T) if WIDE else 180},\
               {100 * WIDE // sizeof(T) if WIDE else 90},{48 * WIDE // sizeof(T) if WIDE else 44} \
               dy={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{492 * WIDE // sizeof(T) if WIDE else 516},{164 * WIDE // sizeof(T) if WIDE else 172},\
               {82 * WIDE // sizeof(T) if WIDE else 86},{41 * WIDE // sizeof(T) if WIDE else 43} \
               dx={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{700 * WIDE // sizeof(T) if WIDE else 600},{220 * WIDE // sizeof(T) if WIDE else 190},\
               {104 * WIDE // sizeof(T) if WIDE else 93},{50 * WIDE // sizeof(T) if WIDE else 45} \
               mode=per_activation {'' if KNOWN else 'mean=none rstd=none'}""",
            """batch_norm_bwd 39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15} {T} \
               x=39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15}\
               @{470 * WIDE // sizeof(T) if WIDE else 600},{232 * WIDE // sizeof(T) if WIDE else 270},\
               {75 * WIDE // sizeof(T) if WIDE else 85},{15 * WIDE // sizeof(T) if WIDE else 16},1 \
               dx=39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15}\
               @{482 * WIDE // sizeof(T) if WIDE else 590},{240 * WIDE // sizeof(T) if WIDE else 280},\
               {75 * WIDE // sizeof(T) if WIDE else 90},{15 * WIDE // sizeof(T) if WIDE else 17},1 \
               {'' if KNOWN else 'mean=none rstd=none'}"""]
@*/
// Threads and items as in batch_norm_stats_rows. row_strides: x dy; col_strides: x dy mean.
// parts[column][split].
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* mean, acc_t<T>* parts, int items, int items_per_split,
    int splits, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 12> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Sums = V < 4 ? V : 4,
                  Step = 256;
    using Values = Vec<T, V>;
    struct Pair { Values x, dy; };
    const Split split(blockIdx.y, items_per_split, items);
    const int column = blockIdx.x;
    x += place<0>(column, col_sizes, col_strides), dy += place<1>(column, col_sizes, col_strides);
    GradSums<A, KNOWN> sums[Sums] = {};                     // several, so that no addition waits for the last
    int count = 0;
    if (int row = split.first + threadIdx.x; row < split.last) {
        const auto load = [&](int r) -> Pair {
            return {Values::load(x + place<0, Digits>(r, row_sizes, row_strides)),
                    Values::load(dy + place<1, Digits>(r, row_sizes, row_strides))};
        };
        const auto add = [&](int, const Pair& v) {
            UNROLL for (int i = 0; i < V; ++i) sums[i % Sums].add(to_acc(v.x[i]), to_acc(v.dy[i]));
        };
        Window<2, 1, Pair> window;
        window.start(row, split.last, Step, load);
        count = (split.last - row + Step - 1) / Step * V;
        A center;
        if constexpr (KNOWN) center = mean[place<2>(column, col_sizes, col_strides)];
        else center = to_acc(window.item[0][0].x[0]);
        UNROLL for (int i = 0; i < Sums; ++i) sums[i].start(center);
        window.run(row, split.last, Step, load, add);
    }
    UNROLL for (int i = 1; i < Sums; ++i) sums[0].join(sums[i]);
    Part mine[1] = {sums[0].part(count)};
    const Team<Step> team(1);
    const Part all = combine_columns(team, mine, 0);
    if (team.leads) reinterpret_cast<Part*>(parts)[i64(column) * splits + blockIdx.y] = all;
}
