/*@kernel
name    = "batch_norm_ring_{T}_{SIZE}"
about   = """Batch norm training in one launch, planes contiguous: {SIZE} blocks hold channel after channel \
             in shared memory, and read x once."""
T       = ["f32", "f16", "bf16"]
SIZE    = [1, 2, 4, 8]
targets = ["sm_90"]
params  = ["const T* x", "const float* scale", "const float* bias", "const float* running_mean",
           "const float* running_var", "T* y", "float* mean", "float* rstd", "float* next_running_mean",
           "float* next_running_var", "float epsilon", "float factor", "float alpha", "float beta",
           "int cols", "int items", "int items_per_block", "int held", "int depth",
           "Array<FastDiv,4> row_sizes", "Array<int64_t,8> row_strides", "Array<FastDiv,4> col_sizes",
           "Array<int64_t,40> col_strides"]
block   = [512, 1, 1]
grid    = ["clusters * SIZE", 1, 1]
extra   = ["clusters"]
smem    = "held * depth * 8192"
needs   = ["1 <= depth", "depth <= 2", "held >= 1", "held * 512 >= items_per_block",
           "items_per_block * SIZE >= items"]
problems = ["batch_norm_training n5c137h17w{96 // sizeof(T)} {T} nchw",
            """batch_norm_training n{SIZE * 9}c3h40w{96 // sizeof(T)} {T} nchw running_mean=1x3x1x1:f32 \
               running_var=1x3x1x1:f32 next_running_mean=1x3x1x1:f32 next_running_var=1x3x1x1:f32""",
            """batch_norm_training 39x2x3x5x{240 // sizeof(T)} {T} \
               x=39x2x3x5x{240 // sizeof(T)}@{7520 // sizeof(T)},{3712 // sizeof(T)},{1200 // sizeof(T)},\
               {240 // sizeof(T)},1"""]
@*/
// Cluster c has the channels c, c + clusters …; of each a block has items_per_block items of 16 bytes.
// Block 0 stores the statistics. Strides as in batch_norm_apply_columns.
#include "finish.cuh"
#include "ring.cuh"

extern "C" __global__ __cluster_dims__(SIZE, 1, 1) __launch_bounds__(512, 2) void KERNEL(
    const T* x, const float* scale, const float* bias, const float* running_mean, const float* running_var,
    T* y, float* mean, float* rstd, float* next_running_mean, float* next_running_var, float epsilon,
    float factor, float alpha, float beta, int cols, int items, int items_per_block, int held, int depth,
    Array<FastDiv, 4> row_sizes, Array<i64, 8> row_strides, Array<FastDiv, 4> col_sizes,
    Array<i64, 40> col_strides) {
    constexpr int V = 16 / int(sizeof(T));
    using Values = Vec<T, V>;
    extern __shared__ uint4 stash[];
    __shared__ Line<float> shared_line;
    const int rank = blockIdx.x % SIZE, clusters = gridDim.x / SIZE;
    const Split split(rank, items_per_block, items);
    const int first = split.first + threadIdx.x;
    const int count = first < split.last ? (split.last - first + 511) / 512 : 0;
    const auto from = [&](int channel, int k, int) {
        return x + place<8>(channel, col_sizes, col_strides)
               + place<0, 2>(first + k * 512, row_sizes, row_strides);
    };
    int channel = blockIdx.x / SIZE;
    Ring<512, T, 1> own{stash, held, depth, count, cols};
    own.start(channel, clusters, from);

    const Parameters<float> given = {scale, bias, running_mean, running_var, mean, rstd, next_running_mean,
                                     next_running_var, epsilon, factor};
    const bool leads = threadIdx.x == 0, store = rank == 0;
    Fetched<float> fetched = {};
    if (leads) fetched = fetch_column(given, channel, true, store, col_sizes, col_strides);
    NO_UNROLL for (int turn = 0; channel < cols; ++turn, channel += clusters) {
        float shift = 0, s[2] = {}, q[2] = {};
        const auto add = [&](int k) {
            const Values v = own.item(k, 0);
            UNROLL for (int i = 0; i < V; ++i) {
                const float d = to_acc(v[i]) - shift;
                s[i % 2] += d, q[i % 2] += d * d;
            }
        };
        own.wait(0);
        if (count) shift = to_acc(own.item(0, 0)[0]);
        own.first_pass(add);
        const Stat<float> mine = stat_of(float(count * V), shift, s[0] + s[1], q[0] + q[1]);
        const Stat<float> all = shared_merge<512, SIZE>(mine, turn);
        if (leads) {
            shared_line = finish_column(given, fetched, channel, true, all, store, col_sizes, col_strides);
            if (channel + clusters < cols)
                fetched = fetch_column(given, channel + clusters, true, store, col_sizes, col_strides);
        }
        __syncthreads();
        const float center = shared_line.center, slope = alpha * shared_line.slope;
        shift = alpha * shared_line.shift;
        T* to = y + place<9>(channel, col_sizes, col_strides);
        own.last_pass(channel + depth * clusters, from, [&](int k) {
            const Values v = own.item(k, 0);
            T* out = to + place<1, 2>(first + k * 512, row_sizes, row_strides);
            float result[V];
            UNROLL for (int i = 0; i < V; ++i) result[i] = (to_acc(v[i]) - center) * slope + shift;
            if (beta != 0) {
                const Values old = Values::load(out);
                UNROLL for (int i = 0; i < V; ++i) result[i] += beta * to_acc(old[i]);
            }
            Values::of(result).store(out);
        });
    }
    cluster_end<SIZE>();
}
