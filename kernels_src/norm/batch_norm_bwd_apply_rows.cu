/*@kernel
name    = "batch_norm_bwd_apply_rows_{T}_{WIDE}_{KNOWN}"
about   = """dx of batch norm for one split of the rows of one column, from parts of the sums; \
             split 0 stores dscale and dbias."""
T       = ["f64", "f32", "f16", "bf16"]
WIDE    = [0, 8, 16]
KNOWN   = [0, 1]
targets = ["sm_75", "sm_80"]
when    = ["sm == 75 or T == bf16", "WIDE != 8 or T != f64"]      # sm_80 rounds to bf16 in one instruction
params  = ["const T* x", "const T* dy", "const Acc_T* parts", "const Acc_T* scale", "const Acc_T* mean",
           "const Acc_T* rstd", "T* dx", "Acc_T* dscale", "Acc_T* dbias", "Acc_T epsilon", "Acc_T alpha",
           "Acc_T beta", "Acc_T alpha_param", "Acc_T beta_param", "int rows", "int items",
           "int items_per_split", "int splits", "int stat_splits", "Array<FastDiv,4> row_sizes",
           "Array<int64_t,12> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,32> col_strides"]
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
// Threads and items as in batch_norm_stats_rows; strides as in batch_norm_bwd_apply_columns.
// rows = items * V.
#include "grad.cuh"

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, const T* dy, const acc_t<T>* parts, const acc_t<T>* scale, const acc_t<T>* mean,
    const acc_t<T>* rstd, T* dx, acc_t<T>* dscale, acc_t<T>* dbias, acc_t<T> epsilon, acc_t<T> alpha,
    acc_t<T> beta, acc_t<T> alpha_param, acc_t<T> beta_param, int rows, int items, int items_per_split,
    int splits, int stat_splits, Array<FastDiv, 4> row_sizes, Array<i64, 12> row_strides,
    Array<FastDiv, 4> col_sizes, Array<i64, 32> col_strides) {
    using A = acc_t<T>;
    using Part = typename GradSums<A, KNOWN>::Part;
    constexpr int V = WIDE ? WIDE / int(sizeof(T)) : 1, Digits = WIDE ? 2 : 4, Step = 256;
    using Values = Vec<T, V>;
    struct Pair { Values x, dy; };
    __shared__ Plane<A> shared_plane;
    const int column = blockIdx.x;
    const Split split(blockIdx.y, items_per_split, items);
    const int row = split.first + threadIdx.x;
    x += place<5>(column, col_sizes, col_strides), dy += place<6>(column, col_sizes, col_strides);
    dx += place<7>(column, col_sizes, col_strides);
    const auto load = [&](int r) -> Pair {
        return {Values::load(x + place<0, Digits>(split.back(r), row_sizes, row_strides)),
                Values::load(dy + place<1, Digits>(split.back(r), row_sizes, row_strides))};
    };
    Window<2, 1, Pair> window;
    window.start(row, split.last, Step, load);

    const Gradients<A> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param, rows};
    const Team<Step> team(1);
    FetchedGrad<A> fetched = {};
    if (team.leads) fetched = fetch_gradient<KNOWN>(given, column, col_sizes, col_strides);
    const Part all = team.template merged<2>(
        reinterpret_cast<const Part*>(parts) + i64(column) * stat_splits, stat_splits, 1);
    if (team.leads) shared_plane = finish_gradient(given, fetched, column, all, blockIdx.y == 0, col_sizes,
                                                   col_strides);
    __syncthreads();
    const A center = shared_plane.center, slope = alpha * shared_plane.slope, offset = shared_plane.offset,
            tilt = shared_plane.tilt;

    const auto apply = [&](int r, const Pair& v) {
        T* out = dx + place<2, Digits>(split.back(r), row_sizes, row_strides);
        A result[V];
        UNROLL for (int i = 0; i < V; ++i)
            result[i] = slope * fma(center - to_acc(v.x[i]), tilt, to_acc(v.dy[i]) - offset);
        if (beta != 0) {
            const Values old = Values::load(out);
            UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
        }
        Values::of(result).store_stream(out);                   // leave the rest of x and dy in L2
    };
    window.run(row, split.last, Step, load, apply);
}
