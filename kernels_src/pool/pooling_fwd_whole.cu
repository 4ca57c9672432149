/*@kernel
name    = "pooling_fwd_whole_{T}_{OP}"
about   = """The window is the whole plane and planes lie behind each other: \
             a block reads some planes as one run, then a team of lanes reduces each."""
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int64_t planes", "int cells", "int group",
           "int team_log2"]
block   = [256, 1, 1]
grid    = ["ceil_div(planes, group)", 1, 1]
smem    = "(group * cells + 16) * sizeof(T)"
needs   = ["group << team_log2 <= 256", "group * cells * sizeof(T) <= 16384"]
problems = ["""pooling_fwd n2c260h1w2 window=1,2 stride=1 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n3c7h8w8 window=8 stride=1 mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n1c5h63w{252 // sizeof(T)} window=63,{252 // sizeof(T)} stride=1 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n1c3h3w9 window=3,9 stride=1 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}"""]
@*/
// The run of group * cells elements starts anywhere; it is read in aligned 16-byte vectors from the vector
// that holds its first element, the last vector only as far as the run goes: a thread moves at most four.
// Two blocks may read one vector, none reads past the tensor.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, float alpha, float beta, i64 planes, int cells, int group, int team_log2) {
    constexpr int V = 16 / int(sizeof(T)), Batch = 4;
    extern __shared__ uint4 dynamic[];
    T* cache = reinterpret_cast<T*>(dynamic);
    const i64 first = i64(blockIdx.x) * group;
    const int mine = int(min(i64(group), planes - first)), skip = int(uint64_t(first * cells) % V),
              count = skip + mine * cells;
    const T* run = x + first * cells - skip;
    const int whole = unsigned(count) / V;
    Vec<T, V> v[Batch];
    UNROLL for (int b = 0; b < Batch; ++b)
        if (const int i = threadIdx.x + b * 256; i < whole) v[b] = Vec<T, V>::load_nc(run + i * V);
    UNROLL for (int b = 0; b < Batch; ++b)
        if (const int i = threadIdx.x + b * 256; i < whole) v[b].store(cache + i * V);
    if (const int k = whole * V + threadIdx.x; k < count) cache[k] = run[k];
    __syncthreads();

    const int plane = threadIdx.x >> team_log2, team = 1 << team_log2, member = threadIdx.x & (team - 1);
    POOL_STATE(OP)<T, 1> state;
    state.start();
    if (plane < mine)
        for (int k = member; k < cells; k += team) state.add(cache[skip + plane * cells + k]);
    // Lanes of a team are neighbours. All lanes of the warp take part.
    for (int mask = 1; mask < team; mask *= 2) {
        auto other = state;
        if constexpr (sizeof(state.v[0]) == 2)
            reinterpret_cast<unsigned short&>(other.v[0]) =
                __shfl_xor_sync(0xffffffffu, int(reinterpret_cast<const unsigned short&>(state.v[0])), mask);
        else other.v[0] = __shfl_xor_sync(0xffffffffu, state.v[0], mask);
        state.add(other);
    }
    if (plane >= mine || member) return;
    float result[1];
    state.finish(result, 1, cells);
    put(y + first + plane, result, alpha, beta);
}
