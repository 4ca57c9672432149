/*@kernel
name    = "batch_norm_stats_columns_{T}_{VEC}"
about   = """Count, mean and M2 of every column over one split of the rows; \
             lanes run along columns (channels innermost)."""
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
params  = ["const T* x", "Acc_T* parts", "int rows", "int cols", "int rows_per_split", "int splits",
           "int lanes_log2", "Array<FastDiv,4> row_sizes", "Array<int64_t,4> row_strides",
           "Array<FastDiv,4> col_sizes", "Array<int64_t,4> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", "splits", 1]
extra   = ["blocks"]
needs   = ["lanes_log2 <= (3 if VEC else 5)"]
problems = ["batch_norm_training n2c{16 if VEC else 5}h3w3 {T} nhwc",
            """batch_norm_training 70x2x3x2x{32 // sizeof(T) if VEC else 5} {T} \
               x=70x2x3x2x{32 // sizeof(T) if VEC else 5}\
               @{800 // sizeof(T) if VEC else 90},{352 // sizeof(T) if VEC else 41},\
               {112 // sizeof(T) if VEC else 13},{48 // sizeof(T) if VEC else 6},1 mode=per_activation""",
            """batch_norm_training \
               {14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5} {T} \
               x={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}\
               @{105 * 96 // sizeof(T) if VEC else 5000},1,{35 * 96 // sizeof(T) if VEC else 1600},\
               {7 * 96 // sizeof(T) if VEC else 300},{1 * 96 // sizeof(T) if VEC else 41} \
               y={14 if VEC else 15}x{80 // sizeof(T) if VEC else 37}x3x5x{7 if VEC else 5}@nhwc"""]
@*/
// A block is lanes x groups: 2^lanes_log2 threads side by side, each with V columns (16 bytes when VEC),
// and 512 / lanes groups of rows. A thread keeps shifted sums of its V columns over every groups-th row
// of the split; the shift is its first value, so neither a large mean nor a stray first row costs digits.
// parts[column][split] goes to the next launch. VEC: one block fills an SM, 8 loads of each thread are in
// flight, and the next launch has few parts to merge.
#include "moments.cuh"

extern "C" __global__ __launch_bounds__(512, VEC ? 1 : 2) void KERNEL(
    const T* x, acc_t<T>* parts, int rows, int cols, int rows_per_split, int splits, int lanes_log2,
    Array<FastDiv, 4> row_sizes, Array<i64, 4> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 4> col_strides) {
    using A = acc_t<T>;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4, Slots = VEC ? 4 : 2;
    using Values = Vec<T, V>;
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;
    const Split split(blockIdx.y, rows_per_split, rows);
    A shift[V] = {}, s[V] = {}, q[V] = {};
    int count = 0;
    if (int row = split.first + group; col < cols && row < split.last) {
        const T* base = x + place(col, col_sizes, col_strides);
        const auto at = [&](int r) {
            return Values::load(base + place<0, Digits>(r, row_sizes, row_strides));
        };
        Window<Slots, 2, Values> window;
        window.start(row, split.last, step, at);
        const auto add = [&](int, const Values& v) {
            UNROLL for (int i = 0; i < V; ++i) {
                const A d = to_acc(v[i]) - shift[i];
                s[i] += d, q[i] += d * d;
            }
        };
        count = (split.last - row + step - 1) / step;
        window.item[0][0].get(shift);
        window.run(row, split.last, step, at, add);
    }
    Stat<A> mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = stat_of(A(count), shift[i], s[i], q[i]);
    const Team<512> team(V << lanes_log2);
    const Stat<A> all = combine_columns(team, mine, lanes_log2);
    if (team.leads && first_col + team.column < cols)
        reinterpret_cast<Stat<A>*>(parts)[i64(first_col + team.column) * splits + blockIdx.y] = all;
}
