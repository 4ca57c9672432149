/*@kernel
name    = "sdpa_fwd_join_{T}"
about   = "The sums of sdpa_fwd_mma.cu over parts of the keys, added up in their order."
T       = ["f16", "bf16"]
targets = ["sm_80"]
params  = ["const float* part", "const float* part_stats", "T* o", "float* stats", "int heads", "int group",
           "int s_q", "int d_v", "int splits", "float empty", "Array<int64_t, 3> o_steps",
           "Array<int64_t, 3> stats_steps", "const int* o_at", "const int* stats_at", "int wide"]
block   = [128, 1, 1]
grid    = ["batches * heads * s_q", 1, 1]
extra   = ["batches"]
needs   = ["1 <= d_v <= 256", "d_v % 8 == 0", "heads % group == 0", "2 <= splits <= 256",
           "batches * heads * s_q < 2147483648"]
problems = [
    """sdpa q=2x2x3x{8 if T == f16 else 16}:{T} \
       k=2x1x{8 if T == f16 else 16}x2750:{T}@44000,44000,1,16 v=2x1x2750x136:{T} o=2x2x3x136:{T} \
       stats=2x2x3x1:f32"""]
@*/
// o_at, stats_at, wide: as in sdpa_fwd_mma.cu.
#include "fwd_join.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const float* part, const float* part_stats, T* o, float* stats, int heads, int group, int s_q, int d_v,
    int splits, float empty, Array<i64, 3> o_steps, Array<i64, 3> stats_steps, const int* o_at,
    const int* stats_at, int wide) {
    const SdpaParts parts = {part,    part_stats, stats, heads, group, s_q, d_v, splits, empty,
                             o_steps, stats_steps, o_at, stats_at, wide};
    parts.join(o);
}
