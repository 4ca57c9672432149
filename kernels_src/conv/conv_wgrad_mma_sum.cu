/*@kernel
name    = "conv_wgrad_mma_sum_{T}"
about   = "dw = alpha * (sums of all splits, added in order) + beta * dw, in any strides."
T       = ["f16", "bf16", "f32"]
targets = ["sm_80"]
params  = ["const float* sums", "T* dw", "float alpha", "float beta", "int64_t vectors", "int splits",
           "FastDiv cols", "FastDiv tap_channels", "int channels", "Array<FastDiv, 3> taps",
           "Array<int64_t, 5> strides", "Fuse fuse"]
block   = [256, 1, 1]
grid    = ["ceil_div(vectors, 32)", 1, 1]
needs   = ["vectors < 2**29"]
marks   = ["epilogue"]
problems = ["conv_wgrad n2c24h7w9 k40r3s3 pad1 {'f16' if T == f32 else T} dw=40x24x3x3:{T} nhwc",
            "conv_wgrad n2c5h12w15 k6r3s3 pad1 {'f16' if T == f32 else T} dw=6x5x3x3:{T}",
            "conv_wgrad n1c8h40w41 k8r1s1 {'f16' if T == f32 else T} dw=8x8x1x1:{T} nhwc",
            """conv_wgrad n2c21d4h8w9 k13t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 mode=convolution \
               {'f16' if T == f32 else T} dw=13x21x2x3x2:{T} nhwc"""]
@*/
// sums is [split][k][t][r][s][c], c padded to tap_channels (a multiple of 8), `vectors` float4 a split,
// `cols` floats a filter. strides are those of dw: k, c, t, r, s. A warp reads 32 neighbouring vectors of
// every 8th split, 8 warps share them out; then 128 threads add the 8 parts of one element each. The order
// never changes, so the result is the same on every run.
#include "lib/epilogue.cuh"
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const float* sums, T* dw, float alpha, float beta, int64_t vectors, int splits, FastDiv cols,
    FastDiv tap_channels, int channels, Array<FastDiv, 3> taps, Array<int64_t, 5> strides, Fuse fuse) {
    __shared__ float part[8][32 * 4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t vector = int64_t(blockIdx.x) * 32 + lane;
    float sum[4] = {};
    if (vector < vectors) {
        const float* from = sums + (warp * vectors + vector) * 4;
#pragma unroll 4
        for (int split = warp; split < splits; split += 8, from += vectors * 32) {
            const auto v = Vec<float, 4>::load_stream(from);
            UNROLL for (int e = 0; e < 4; ++e) sum[e] += v[e];
        }
    }
    UNROLL for (int e = 0; e < 4; ++e) part[warp][lane * 4 + e] = sum[e];
    __syncthreads();
    const int64_t element = int64_t(blockIdx.x) * 128 + threadIdx.x;
    if (threadIdx.x >= 128 || element >= vectors * 4) return;
    float total = 0.f;
    UNROLL for (int i = 0; i < 8; ++i) total += part[i][threadIdx.x];
    unsigned col, c, t, r, s;
    const unsigned k = cols.divmod(unsigned(element), col), tap = tap_channels.divmod(col, c);
    if (c >= channels) return;
    t = taps[1].divmod(taps[2].divmod(tap, s), r);
    const i64 off = k * strides[0] + c * strides[1] + t * strides[2] + r * strides[3] + s * strides[4];
    float v[1] = {blend(alpha, total, beta, dw + off)};
    fuse_epilogue(v, off, int(k), int(tap) * channels + int(c));
    dw[off] = from_acc<T>(v[0]);
}
