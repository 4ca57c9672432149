/*@kernel
name    = "batch_norm_bwd_resident_{T}_{KNOWN}"
about   = """Batch norm backward in one launch: a block owns some columns, \
             keeps their x and dy in registers, and reads each once."""
T       = ["f32", "f16", "bf16"]
KNOWN   = [0, 1]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16"]             # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const T* dy", "const Acc_T* scale", "const Acc_T* mean", "const Acc_T* rstd",
           "T* dx", "Acc_T* dscale", "Acc_T* dbias", "Acc_T epsilon", "Acc_T alpha", "Acc_T beta",
           "Acc_T alpha_param", "Acc_T beta_param", "int rows", "int cols", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,12> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,32> col_strides"]
block   = [512, 1, 1]
grid    = ["blocks", 1, 1]
extra   = ["blocks"]
needs   = ["rows <= 8 * (512 >> lanes_log2)", "lanes_log2 <= 3"]
problems = ["batch_norm_bwd n2c24h3w3 {T} nhwc {'' if KNOWN else 'mean=none rstd=none'}",
            """batch_norm_bwd 70x2x3x2x{32 // sizeof(T)} {T} \
               x=70x2x3x2x{32 // sizeof(T)}@{800 // sizeof(T)},{352 // sizeof(T)},{112 // sizeof(T)},\
               {48 // sizeof(T)},1 \
               dx=70x2x3x2x{32 // sizeof(T)}@{768 // sizeof(T)},{368 // sizeof(T)},{line(T)},\
               {32 // sizeof(T)},1 mode=per_activation {'' if KNOWN else 'mean=none rstd=none'}""",
            "batch_norm_bwd n7c{48 // sizeof(T)}h17w17 {T} nhwc {'' if KNOWN else 'mean=none rstd=none'}"]
@*/
// Threads as in batch_norm_resident; strides as in batch_norm_bwd_apply_columns.
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* scale, const acc_t<T>* mean, const acc_t<T>* rstd, T* dx,
    acc_t<T>* dscale, acc_t<T>* dbias, acc_t<T> epsilon, acc_t<T> alpha, acc_t<T> beta, acc_t<T> alpha_param,
    acc_t<T> beta_param, int rows, int cols, int lanes_log2, Array<FastDiv, 4> row_sizes,
    Array<i64, 12> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 32> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = 16 / int(sizeof(T)), Most = 8, Widest = 8 * V;
    using Values = Vec<T, V>;
    __shared__ A centers[Widest], slopes[Widest], offsets[Widest], tilts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;

    const int count = col < cols && group < rows ? (rows - group + step - 1) / step : 0;
    x += place<5>(col, col_sizes, col_strides), dy += place<6>(col, col_sizes, col_strides);
    dx += place<7>(col, col_sizes, col_strides);
    Values a[Most], b[Most];
    UNROLL for (int k = 0; k < Most; ++k)
        if (k < count) {
            a[k] = Values::load(x + place<0, 1>(group + k * step, row_sizes, row_strides));
            b[k] = Values::load(dy + place<1, 1>(group + k * step, row_sizes, row_strides));
        }
    const Gradients<A> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param, rows};
    const Team<512> team(V << lanes_log2);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols;
    FetchedGrad<A> fetched = {};
    if (leads) fetched = fetch_gradient<KNOWN>(given, first_col + c, col_sizes, col_strides);
    Part mine[V] = {};
    if (count)
        UNROLL for (int i = 0; i < V; ++i) {
            GradSums<A, KNOWN> sums;
            if constexpr (KNOWN) sums.start(mean[place<1>(col + i, col_sizes, col_strides)]);
            else sums.start(to_acc(a[0][i]));
            UNROLL for (int k = 0; k < Most; ++k)
                if (k < count) sums.add(to_acc(a[k][i]), to_acc(b[k][i]));
            mine[i] = sums.part(count);
        }
    const Part all = combine_columns(team, mine, lanes_log2);
    if (leads) {
        const Plane<A> plane = finish_gradient(given, fetched, first_col + c, all, true, col_sizes,
                                               col_strides);
        centers[c] = plane.center, slopes[c] = alpha * plane.slope, offsets[c] = plane.offset,
        tilts[c] = plane.tilt;
    }
    __syncthreads();
    UNROLL for (int k = 0; k < Most; ++k) {
        if (k >= count) break;
        T* out = dx + place<2, 1>(group + k * step, row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i) {
            const int at = lane * V + i;
            result[i] = slopes[at] * fma(centers[at] - to_acc(a[k][i]), tilts[at],
                                         to_acc(b[k][i]) - offsets[at]);
        }
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store(out);
    }
}
