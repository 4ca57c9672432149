/*@kernel
name    = "sdpa_fwd_join_{T}"
about   = "The sums of sdpa_fwd_mma.cu over parts of the keys, added up in their order."
T       = ["f16", "bf16"]
targets = ["sm_80", "sm_90"]
params  = ["const float* part", "const float* part_stats", "T* o", "float* stats", "int heads", "int group",
           "int s_q", "int d_v", "int splits", "float empty", "Array<int64_t, 3> o_steps",
           "Array<int64_t, 3> stats_steps", "const int* o_at", "const int* stats_at", "int wide"]
block   = [128, 1, 1]
grid    = ["batches * heads * s_q", 1, 1]
dependent = true
extra   = ["batches"]
needs   = ["1 <= d_v <= 256", "d_v % 8 == 0", "heads % group == 0", "2 <= splits <= 256",
           "batches * heads * s_q < 2147483648"]
problems = [
    """sdpa q=2x2x3x{8 if T == f16 else 16}:{T} \
       k=2x1x{8 if T == f16 else 16}x2750:{T}@44000,44000,1,16 v=2x1x2750x136:{T} o=2x2x3x136:{T} \
       stats=2x2x3x1:f32"""]
@*/
// o_at, stats_at, wide: as in sdpa_fwd_mma.cu.
//
// A block makes a row; a warp goes through every fourth part, and the sums of the four are added in order.
#include "fwd_mma_sums.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const float* part, const float* part_stats, T* o, float* stats, int heads, int group, int s_q, int d_v,
    int splits, float empty, Array<i64, 3> o_steps, Array<i64, 3> stats_steps, const int* o_at,
    const int* stats_at, int wide) {
#if __CUDA_ARCH__ >= 900                                             // PTX ISA §griddepcontrol
    asm volatile("griddepcontrol.wait;" ::: "memory");               // the parts have not ended yet
#endif
    __shared__ float4 sums[4][64];
    __shared__ float totals[4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = s_q * group, row = blockIdx.x;
    const i64 rows = gridDim.x;
    float top = -INFINITY, total = 0;
    NO_UNROLL for (int i = lane; i < splits; i += 32) top = fmaxf(top, part_stats[i * rows + row]);
    UNROLL for (int mask = 16; mask > 0; mask /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, mask));
    float4 sum[2] = {};
#pragma unroll 4
    for (int i = warp; i < splits; i += 4) {
        const float size = part_stats[i * rows + row], weight = weight_of(size - base_of(top));
        total += weight;
        UNROLL for (int n = 0; n < 2; ++n) {
            const int c = (lane + 32 * n) * 4;
            if (size == -INFINITY || c >= d_v) continue;             // nothing was stored
            const float4 one = *reinterpret_cast<const float4*>(part + (i * rows + row) * d_v + c);
            sum[n].x += weight * one.x, sum[n].y += weight * one.y;
            sum[n].z += weight * one.z, sum[n].w += weight * one.w;
        }
    }
    UNROLL for (int n = 0; n < 2; ++n) sums[warp][lane + 32 * n] = sum[n];
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    if (threadIdx.x * 4 >= d_v) return;
    total = 0;
    float found[4] = {};
    UNROLL for (int w = 0; w < 4; ++w) {
        const float4 one = sums[w][threadIdx.x];
        total += totals[w];
        found[0] += one.x, found[1] += one.y, found[2] += one.z, found[3] += one.w;
    }
    const int unit = row / count, number = row - unit * count, groups = heads / group;
    const int batch = unit / groups, head = unit % groups * group + number % group, query = number / group;
    const float by = total == 0 ? empty : __fdividef(1, total);
    UNROLL for (int n = 0; n < 4; ++n) found[n] *= by;
    const float size = total == 0 ? -INFINITY : top + __log2f(total);
    SdpaOut<T> out = {o, stats, Batch(o_at, wide & 8, batch, o_steps[0]),
                      Batch(stats_at, wide & 16, batch, stats_steps[0]), o_steps, stats_steps};
    out.put(head, query, threadIdx.x * 4, found, size);
}
