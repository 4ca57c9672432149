/*@kernel
name    = "batch_norm_bwd_apply_columns_{T}_{VEC}_{KNOWN}"
about   = """dx of batch norm over one split of the rows, from parts of the sums; \
             the blocks of split 0 store dscale and dbias."""
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [0, 1]
KNOWN   = [0, 1]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16"]             # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const T* dy", "const Acc_T* parts", "const Acc_T* scale", "const Acc_T* mean",
           "const Acc_T* rstd", "T* dx", "Acc_T* dscale", "Acc_T* dbias", "Acc_T epsilon", "Acc_T alpha",
           "Acc_T beta", "Acc_T alpha_param", "Acc_T beta_param", "int rows", "int cols",
           "int rows_per_split", "int splits", "int stat_splits", "int lanes_log2",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,12> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,32> col_strides"]
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
// Threads as in batch_norm_stats_columns, merge of the parts as in batch_norm_apply_columns.
// row_strides: x dy dx; col_strides: in the order of `finish_gradient` and x dy dx.
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(512, VEC ? 1 : 2) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* parts, const acc_t<T>* scale, const acc_t<T>* mean,
    const acc_t<T>* rstd, T* dx, acc_t<T>* dscale, acc_t<T>* dbias, acc_t<T> epsilon, acc_t<T> alpha,
    acc_t<T> beta, acc_t<T> alpha_param, acc_t<T> beta_param, int rows, int cols, int rows_per_split,
    int splits, int stat_splits, int lanes_log2, Array<FastDiv, 4> row_sizes, Array<i64, 12> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 32> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = VEC ? 16 / int(sizeof(T)) : 1, Digits = VEC ? 1 : 4, Widest = VEC ? 8 * V : 32;
    using Values = Vec<T, V>;
    struct Pair { Values x, dy; };
    __shared__ A centers[Widest], slopes[Widest], offsets[Widest], tilts[Widest];
    const int lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2,
              step = 512 >> lanes_log2;
    const int columns = V << lanes_log2, first_col = blockIdx.x * columns, col = first_col + lane * V;

    const Split split(blockIdx.y, rows_per_split, rows);
    const int row = split.first + group, last = col < cols ? split.last : 0;
    x += place<5>(col, col_sizes, col_strides), dy += place<6>(col, col_sizes, col_strides);
    dx += place<7>(col, col_sizes, col_strides);
    const auto load = [&](int r) -> Pair {
        return {Values::load(x + place<0, Digits>(split.back(r), row_sizes, row_strides)),
                Values::load(dy + place<1, Digits>(split.back(r), row_sizes, row_strides))};
    };
    Window<VEC ? 4 : 2, 1, Pair> window;
    window.start(row, last, step, load);

    const Gradients<A> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param, rows};
    const Team<512> team(columns);
    const int c = team.column;
    const bool leads = team.leads && first_col + c < cols;
    FetchedGrad<A> fetched = {};
    if (leads) fetched = fetch_gradient<KNOWN>(given, first_col + c, col_sizes, col_strides);
    const i64 mine = min(first_col + c, cols - 1);  // teams beyond the last column merge it and keep silent
    const Part all = team.template merged<(VEC ? 8 : 2)>(
        reinterpret_cast<const Part*>(parts) + mine * stat_splits, stat_splits, 1);
    if (leads) {
        const Plane<A> plane = finish_gradient(given, fetched, first_col + c, all, blockIdx.y == 0, col_sizes,
                                               col_strides);
        centers[c] = plane.center, slopes[c] = alpha * plane.slope, offsets[c] = plane.offset,
        tilts[c] = plane.tilt;
    }
    __syncthreads();
    if (row >= last) return;                                // also the lanes beyond the last column
    A center[V], slope[V], offset[V], tilt[V];
    UNROLL for (int i = 0; i < V; ++i) {
        const int k = lane * V + i;
        center[i] = centers[k], slope[i] = slopes[k], offset[i] = offsets[k], tilt[i] = tilts[k];
    }
    const auto apply = [&](int r, const Pair& v) {
        T* out = dx + place<2, Digits>(split.back(r), row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i)
            result[i] = slope[i] * fma(center[i] - to_acc(v.x[i]), tilt[i], to_acc(v.dy[i]) - offset[i]);
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store_stream(out);                   // leave the rest of x and dy in L2
    };
    window.run(row, last, step, load, apply);
}
