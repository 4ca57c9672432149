/*@kernel
name    = "batch_norm_cluster_{T}_{SIZE}"
about   = """Batch norm training in one launch: {SIZE} blocks of a cluster own some columns, \
             keep all their rows in shared memory, and read x once."""
T       = ["f32", "f16", "bf16"]
SIZE    = [2, 4, 8]
targets = ["sm_90"]
params  = ["const T* x", "const Acc_T* scale", "const Acc_T* bias", "const Acc_T* running_mean",
           "const Acc_T* running_var", "T* y", "Acc_T* mean", "Acc_T* rstd", "Acc_T* next_running_mean",
           "Acc_T* next_running_var", "Acc_T epsilon", "Acc_T factor", "Acc_T alpha", "Acc_T beta",
           "int rows", "int cols", "int lanes_log2", "int held", "Array<FastDiv,4> row_sizes",
           "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks * SIZE", 1, 1]
extra   = ["blocks"]
smem    = "held * 8192"
needs   = ["rows <= held * SIZE * (512 >> lanes_log2)", "lanes_log2 <= 3", "held >= 1"]
problems = ["batch_norm_training n{SIZE}c{line(T) // 8}h17w100 {T} nhwc",
            """batch_norm_training 70x2x3x2x{32 // sizeof(T)} {T} \
               x=70x2x3x2x{32 // sizeof(T)}@{800 // sizeof(T)},{352 // sizeof(T)},{112 // sizeof(T)},\
               {48 // sizeof(T)},1 mode=per_activation running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               running_var=1x2x3x2x{32 // sizeof(T)}:f32 mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               rstd=1x2x3x2x{32 // sizeof(T)}:f32 next_running_mean=1x2x3x2x{32 // sizeof(T)}:f32 \
               next_running_var=1x2x3x2x{32 // sizeof(T)}:f32"""]
@*/
// Threads as in batch_norm_stats_columns; the groups of all blocks of the cluster take turns at the rows,
// `held` rows a thread at most. A thread stores and loads only its own slots, so no barrier is needed
// between; it sums the first quarter of its rows while the others are under way. Every block merges
// the parts of all blocks in the order of their ranks; block 0 stores the statistics. Strides as in
// batch_norm_apply_columns.
#include "finish.cuh"
#include "lib/cluster.cuh"

extern "C" __global__ __cluster_dims__(SIZE, 1, 1) __launch_bounds__(512, 1) void KERNEL(
    const T* x, const acc_t<T>* scale, const acc_t<T>* bias, const acc_t<T>* running_mean,
    const acc_t<T>* running_var, T* y, acc_t<T>* mean, acc_t<T>* rstd, acc_t<T>* next_running_mean,
    acc_t<T>* next_running_var, acc_t<T> epsilon, acc_t<T> factor, acc_t<T> alpha, acc_t<T> beta, int rows,
    int cols, int lanes_log2, int held, Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 40> col_strides) {
    using A = acc_t<T>;
    constexpr int V = 16 / int(sizeof(T)), Widest = 8 * V, Quarters = 4;
    using Values = Vec<T, V>;
    extern __shared__ uint4 stash[];
    __shared__ Stat<A> shown[Widest];
    __shared__ A centers[Widest], slopes[Widest], shifts[Widest];
    const int rank = blockIdx.x % SIZE, lane = threadIdx.x & ((1 << lanes_log2) - 1),
              groups = 512 >> lanes_log2, step = SIZE * groups;
    const int first_col = int(blockIdx.x / SIZE << lanes_log2) * V, col = first_col + lane * V;
    const int first = rank * groups + (threadIdx.x >> lanes_log2);
    const int count = col < cols && first < rows ? (rows - first + step - 1) / step : 0;
    const int quarter = ceil_div(held, Quarters);
    x += place<8>(col, col_sizes, col_strides), y += place<9>(col, col_sizes, col_strides);
    const auto slot = [&](int k) { return stash + k * 512 + threadIdx.x; };
    const auto row = [&](int k) { return Values::load(reinterpret_cast<const T*>(slot(k))); };

    UNROLL for (int part = 0; part < Quarters; ++part) {
        NO_UNROLL for (int k = part * quarter; k < min((part + 1) * quarter, count); ++k)
            cp_async<16>(shared_address(slot(k)), x + place<0, 1>(first + k * step, row_sizes, row_strides));
        cp_async_commit();
    }
    const Parameters<A> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                                 next_running_var, epsilon, factor};
    const Team<512> team(V << lanes_log2);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols, store = rank == 0;
    Fetched<A> fetched = {};
    if (leads) fetched = fetch_column(given, first_col + c, true, store, col_sizes, col_strides);

    A shift[V] = {}, s[V] = {}, q[V] = {};
    const auto add = [&](int part) {
        if (part == 0 && count) row(0).get(shift);
        NO_UNROLL for (int k = part * quarter; k < min((part + 1) * quarter, count); ++k) {
            const Values v = row(k);
            UNROLL for (int i = 0; i < V; ++i) {
                const A d = to_acc(v[i]) - shift[i];
                s[i] += d, q[i] += d * d;
            }
        }
    };
    cp_async_wait<3>(), add(0);
    cp_async_wait<2>(), add(1);
    cp_async_wait<1>(), add(2);
    cp_async_wait<0>(), add(3);
    Stat<A> mine[V];
    UNROLL for (int i = 0; i < V; ++i) mine[i] = stat_of(A(count), shift[i], s[i], q[i]);
    const Stat<A> part = combine_columns(team, mine, lanes_log2);
    if (team.leads) shown[c] = part;
    cluster_arrive();
    cluster_wait();
    if (leads) {
        Stat<A> all = {};
        UNROLL for (int b = 0; b < SIZE; ++b) all = merge(all, cluster_copy(shown[c], b));
        const Line<A> line = finish_column(given, fetched, first_col + c, true, all, store, col_sizes,
                                           col_strides);
        centers[c] = line.center, slopes[c] = alpha * line.slope, shifts[c] = alpha * line.shift;
    }
    cluster_arrive();
    __syncthreads();
    if (count) {
        A center[V], slope[V], shift[V];
        UNROLL for (int i = 0; i < V; ++i)
            center[i] = centers[lane * V + i], slope[i] = slopes[lane * V + i],
            shift[i] = shifts[lane * V + i];
        NO_UNROLL for (int k = 0; k < count; ++k) {
            T* out = y + place<1, 1>(first + k * step, row_sizes, row_strides);
            const Values v = row(k);
            A result[V];
            UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[i]) - center[i]) * slope[i] + shift[i];
            if (beta != 0) {
                const Values old = Values::load(out);
                UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
            }
            Values::of(result).store(out);
        }
    }
    cluster_leave();
}
