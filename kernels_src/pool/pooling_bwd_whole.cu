/*@kernel
name    = "pooling_bwd_whole_{T}"
about   = "dx of average pooling over whole planes that lie behind each other: a thread makes 16 bytes of dx."
T       = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* dy", "T* dx", "float alpha", "float beta", "int vectors", "FastDiv cells"]
block   = [256, 1, 1]
grid    = ["ceil_div(vectors, 256)", 1, 1]
needs   = ["vectors * 16 // sizeof(T) < 2 ** 31"]
problems = ["pooling_bwd n2c24h3w3 window=3 stride=1 mode=avg_exclude_padding {T}"]
@*/
// dx[i] = dy[i / cells] / cells; the planes' elements together are a multiple of a vector.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, T* dx, float alpha, float beta, int vectors, FastDiv cells) {
    constexpr int V = 16 / int(sizeof(T));
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= vectors) return;
    unsigned at, plane = cells.divmod(i * V, at);
    float result[V];
    UNROLL for (int k = 0; k < V; ++k) {
        result[k] = to_acc(dy[plane]) / cells.by;
        if (++at == cells.by) at = 0, ++plane;
    }
    put(dx + i64(i) * V, result, alpha, beta);
}
