/*@kernel
name    = "batch_norm_bwd_ring_{T}_{SIZE}"
about   = """Batch norm backward in one launch, planes contiguous: {SIZE} blocks hold x and dy of channel \
             after channel in shared memory, and read each once."""
T       = ["f32", "f16", "bf16"]
SIZE    = [1, 2, 4, 8]
targets = ["sm_90"]
params  = ["const T* x", "const T* dy", "const float* scale", "const float* mean", "const float* rstd",
           "T* dx", "float* dscale", "float* dbias", "float epsilon", "float alpha", "float beta",
           "float alpha_param", "float beta_param", "int rows", "int cols", "int items",
           "int items_per_block", "int held", "int depth", "Array<FastDiv,4> row_sizes",
           "Array<int64_t,12> row_strides", "Array<FastDiv,4> col_sizes", "Array<int64_t,32> col_strides"]
block   = [512, 1, 1]
grid    = ["clusters * SIZE", 1, 1]
extra   = ["clusters"]
smem    = "held * depth * 16384"
needs   = ["1 <= depth", "depth <= 2", "held >= 1", "held * 512 >= items_per_block",
           "items_per_block * SIZE >= items"]
problems = ["batch_norm_bwd n5c{min(137, 274 // SIZE + 1)}h17w{96 // sizeof(T)} {T} nchw",
            "batch_norm_bwd n{SIZE * 3}c5h40w{96 // sizeof(T)} {T} nchw",
            """batch_norm_bwd 39x2x3x5x{240 // sizeof(T)} {T} \
               x=39x2x3x5x{240 // sizeof(T)}@{7520 // sizeof(T)},{3712 // sizeof(T)},{1200 // sizeof(T)},\
               {240 // sizeof(T)},1"""]
@*/
// Blocks as in batch_norm_ring; strides as in batch_norm_bwd_apply_columns.
#include "grad.cuh"
#include "ring.cuh"

extern "C" __global__ __cluster_dims__(SIZE, 1, 1) __launch_bounds__(512, 2) void KERNEL(
    const T* x, const T* dy, const float* scale, const float* mean, const float* rstd, T* dx, float* dscale,
    float* dbias, float epsilon, float alpha, float beta, float alpha_param, float beta_param, int rows,
    int cols, int items, int items_per_block, int held, int depth, Array<FastDiv, 4> row_sizes,
    Array<i64, 12> row_strides, Array<FastDiv, 4> col_sizes, Array<i64, 32> col_strides) {
    constexpr int V = 16 / int(sizeof(T));
    using Values = Vec<T, V>;
    extern __shared__ uint4 stash[];
    __shared__ Plane<float> shared_plane;
    const int rank = blockIdx.x % SIZE, clusters = gridDim.x / SIZE;
    const Split split(rank, items_per_block, items);
    const int first = split.first + threadIdx.x;
    const int count = first < split.last ? (split.last - first + 511) / 512 : 0;
    const auto from = [&](int channel, int k, int i) {
        const int item = first + k * 512;
        return i == 0 ? x + place<5>(channel, col_sizes, col_strides)
                            + place<0, 2>(item, row_sizes, row_strides)
                      : dy + place<6>(channel, col_sizes, col_strides)
                            + place<1, 2>(item, row_sizes, row_strides);
    };
    int channel = blockIdx.x / SIZE;
    Ring<512, T, 2> own{stash, held, depth, count, cols};
    own.start(channel, clusters, from);

    const Gradients<float> given = {scale, mean, rstd, dscale, dbias, epsilon, alpha_param, beta_param, rows};
    const bool leads = threadIdx.x == 0;
    const auto mean_of = [&](int c) { return c < cols ? mean[place<1>(c, col_sizes, col_strides)] : 0.f; };
    float center = mean_of(channel);
    FetchedGrad<float> fetched = {};
    if (leads) fetched = fetch_gradient<true>(given, channel, col_sizes, col_strides);
    NO_UNROLL for (int turn = 0; channel < cols; ++turn, channel += clusters) {
        float sum[2] = {}, dot[2] = {};
        const float next_center = mean_of(channel + clusters);
        const auto add = [&](int k) {
            const Values a = own.item(k, 0), b = own.item(k, 1);
            UNROLL for (int i = 0; i < V; ++i) {
                const float d = to_acc(b[i]);
                sum[i % 2] += d, dot[i % 2] += d * (to_acc(a[i]) - center);
            }
        };
        own.first_pass(add);
        const GradSum<float> all = shared_merge<512, SIZE>(GradSum<float>{sum[0] + sum[1], dot[0] + dot[1]},
                                                           turn);
        if (leads) {
            shared_plane = finish_gradient(given, fetched, channel, all, rank == 0, col_sizes, col_strides);
            if (channel + clusters < cols)
                fetched = fetch_gradient<true>(given, channel + clusters, col_sizes, col_strides);
        }
        __syncthreads();
        const Plane<float> plane = shared_plane;
        const float slope = alpha * plane.slope;
        T* to = dx + place<7>(channel, col_sizes, col_strides);
        own.last_pass(channel + depth * clusters, from, [&](int k) {
            const Values a = own.item(k, 0), b = own.item(k, 1);
            T* out = to + place<2, 2>(first + k * 512, row_sizes, row_strides);
            float result[V];
            UNROLL for (int i = 0; i < V; ++i)
                result[i] = slope * fma(plane.center - to_acc(a[i]), plane.tilt, to_acc(b[i]) - plane.offset);
            if (beta != 0) {
                const Values old = Values::load(out);
                UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
            }
            Values::of(result).store(out);
        });
        center = next_center;
    }
    cluster_end<SIZE>();
}
