/*@kernel
name    = "conv_mma_unpack_{T}"
about   = "to = from + beta * to: dense NHWC sums in f32 into a tensor with dense pixels and any channel stride."
T       = ["f16", "bf16"]
targets = ["sm_75"]
params  = ["const float* from", "T* to", "float beta", "int images", "int channels", "int pixels", "int64_t image_stride", "int64_t channel_stride",
           "int64_t pixel_stride", "FastDiv pixel_tiles"]
block   = [256, 1, 1]
grid    = ["images * pixel_tiles", "ceil_div(channels, 64)", 1]
needs   = ["pixel_tiles == ceil_div(pixels, 64)"]
problems = ["conv_fprop n2c8h4w5 k6r1s1 {T}",
            "conv_fprop n2c8h7w10 k70r1s1 {T}",
            "conv_fprop n2c8h8w8 k64r1s1 {T}",
            "conv_fprop x=2x8x5x6:{T} w=70x8x1x1:{T} y=2x70x5x6:{T}@2160,1,432,72"]
@*/
// The way back of conv_mma_pack: 64 pixels by 64 channels through shared memory, rows of 65 floats. Reading follows the
// channels, writing the smaller of the two strides of `to`.
#include "lib/math.cuh"
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(const float* from, T* to, float beta, int images, int channels, int pixels,
                                                         int64_t image_stride, int64_t channel_stride, int64_t pixel_stride,
                                                         FastDiv pixel_tiles) {
    __shared__ float tile[64][65];
    unsigned pixel_tile;
    const int64_t image = pixel_tiles.divmod(blockIdx.x, pixel_tile);
    const int p0 = pixel_tile * 64, c0 = blockIdx.y * 64, thread = threadIdx.x;
    const bool along_pixels = pixel_stride < channel_stride;
#pragma unroll 8
    for (int i = thread; i < 64 * 64; i += 256) {
        const int p = i / 64, c = i % 64;
        if (p0 + p < pixels && c0 + c < channels) tile[p][c] = from[(image * pixels + p0 + p) * channels + c0 + c];
    }
    __syncthreads();
    to += image * image_stride;
#pragma unroll 8
    for (int i = thread; i < 64 * 64; i += 256) {
        const int p = along_pixels ? i % 64 : i / 64, c = along_pixels ? i / 64 : i % 64;
        if (p0 + p >= pixels || c0 + c >= channels) continue;
        T* at = to + (c0 + c) * channel_stride + (p0 + p) * pixel_stride;
        *at = from_acc<T>(blend(1.f, tile[p][c], beta, at));
    }
}
