/*@kernel
name    = "batch_norm_stats_rows_{T}_{WIDE}"
about   = """Count, mean and M2 of one column over one split of its rows; \
             lanes run along the rows (planes contiguous)."""
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
when    = ["WIDE != 8 or T != f64"]
params  = ["const T* x", "Acc_T* parts", "int items", "int items_per_split", "int splits",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,4> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,4> col_strides"]
block   = [256, 1, 1]
grid    = ["cols", "splits", 1]
extra   = ["cols"]
problems = ["batch_norm_training n3c2h1w{301 * WIDE // sizeof(T) if WIDE else 301} {T}",
            """batch_norm_training {41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2 {T} \
               x={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{650 * WIDE // sizeof(T) if WIDE else 560},{210 * WIDE // sizeof(T) if WIDE else 180},\
               {100 * WIDE // sizeof(T) if WIDE else 90},{48 * WIDE // sizeof(T) if WIDE else 44} \
               y={41 * WIDE // sizeof(T) if WIDE else 43}x2x3x2x2\
               @1,{492 * WIDE // sizeof(T) if WIDE else 516},{164 * WIDE // sizeof(T) if WIDE else 172},\
               {82 * WIDE // sizeof(T) if WIDE else 86},{41 * WIDE // sizeof(T) if WIDE else 43} \
               mode=per_activation""",
            """batch_norm_training 39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15} {T} \
               x=39x2x3x5x{15 * WIDE // sizeof(T) if WIDE else 15}\
               @{470 * WIDE // sizeof(T) if WIDE else 600},{232 * WIDE // sizeof(T) if WIDE else 270},\
               {75 * WIDE // sizeof(T) if WIDE else 85},{15 * WIDE // sizeof(T) if WIDE else 16},1"""]
@*/
// An item is V rows that are neighbours in memory (WIDE bytes; WIDE 0: one row); row_sizes and row_strides
// count items. Every thread keeps shifted sums of every 256th item of the split, four of each so that no
// addition waits for the last. parts[column][split] goes to the next launch.
#include "moments.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, acc_t<T>* parts, int items, int items_per_split, int splits, Array<FastDiv, 4> row_sizes,
    Array<i64, 4> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 4> col_strides) {
    using A = acc_t<T>;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Slots = WIDE ? 2 : 1,
                  Sums = V < 4 ? V : 4, Step = 256;
    using Values = Vec<T, V>;
    const Split split(blockIdx.y, items_per_split, items);
    x += place(blockIdx.x, col_sizes, col_strides);
    const auto at = [&](int r) { return Values::load(x + place<0, Digits>(r, row_sizes, row_strides)); };
    A shift = 0, s[Sums] = {}, q[Sums] = {}, count = 0;
    if (int row = split.first + threadIdx.x; row < split.last) {
        const auto add = [&](int, const Values& v) {
            UNROLL for (int i = 0; i < V; ++i) {
                const A d = to_acc(v[i]) - shift;
                s[i % Sums] += d, q[i % Sums] += d * d;
            }
        };
        count = A((split.last - row + Step - 1) / Step) * V;
        Window<Slots, 2, Values> window;
        window.start(row, split.last, Step, at);
        shift = to_acc(window.item[0][0][0]);
        window.run(row, split.last, Step, at, add);
    }
    UNROLL for (int i = 1; i < Sums; ++i) s[0] += s[i], q[0] += q[i];
    Stat<A> mine[1] = {stat_of(count, shift, s[0], q[0])};
    const Team<Step> team(1);
    const Stat<A> all = combine_columns(team, mine, 0);
    if (team.leads) reinterpret_cast<Stat<A>*>(parts)[i64(blockIdx.x) * splits + blockIdx.y] = all;
}
