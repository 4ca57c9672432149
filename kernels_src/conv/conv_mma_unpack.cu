/*@kernel
name    = "conv_mma_unpack_{T}"
about   = """to = from + beta * to: dense NHWC sums in f32 into a tensor with dense pixels and any channel \
             stride."""
T       = ["f16", "bf16", "f32"]
targets = ["sm_75"]
params  = ["const float* from", "T* to", "float beta", "int images", "int channels", "int pixels",
           "int64_t image_stride", "int64_t channel_stride", "int64_t pixel_stride", "FastDiv pixel_tiles"]
block   = [256, 1, 1]
grid    = ["images * pixel_tiles", "ceil_div(channels, 64)", 1]
needs   = ["pixel_tiles == ceil_div(pixels, 64)"]
problems = ["conv_fprop n2c8h4w5 k6r1s1 {'f16' if T == f32 else T} y=2x6x4x5:{T}",
            """conv_fprop x=2x8x5x14:{'f16' if T == f32 else T} w=133x8x1x1:{'f16' if T == f32 else T} \
             y=2x133x5x14:{T}@9400,70,14,1""",
            "conv_fprop n2c8h8w8 k64r1s1 {'f16' if T == f32 else T} y=2x64x8x8:{T}",
            """conv_fprop x=2x8x5x14:{'f16' if T == f32 else T} w=133x8x1x1:{'f16' if T == f32 else T} \
             y=2x133x5x14:{T}@9520,1,1904,136"""]
@*/
// The way back of conv_mma_pack: 64 pixels by 64 channels through shared memory, rows of 65 floats. Reading
// follows the channels, writing the smaller of the two strides of `to`.
#include "lib/math.cuh"
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const float* from, T* to, float beta, int images, int channels, int pixels, int64_t image_stride,
    int64_t channel_stride, int64_t pixel_stride, FastDiv pixel_tiles) {
    __shared__ float tile[64][65];
    unsigned pixel_tile;
    const int64_t image = pixel_tiles.divmod(blockIdx.x, pixel_tile);
    const int p0 = pixel_tile * 64, c0 = blockIdx.y * 64, lane = threadIdx.x % 64, line = threadIdx.x / 64;
    const bool along_pixels = pixel_stride < channel_stride;
#pragma unroll 8
    for (int u = 0; u < 64; u += 4)
        if (p0 + line + u < pixels && c0 + lane < channels)
            tile[line + u][lane] = from[(image * pixels + p0 + line + u) * channels + c0 + lane];
    __syncthreads();
    const int lanes = along_pixels ? pixels - p0 : channels - c0;
    const int lines = along_pixels ? channels - c0 : pixels - p0;
    const int lane_step = along_pixels ? 65 : 1, line_step = along_pixels ? 1 : 65;         // in the tile
    const int64_t to_lane = along_pixels ? pixel_stride : channel_stride;                   // in memory
    const int64_t to_line = along_pixels ? channel_stride : pixel_stride;
    const float* sums = &tile[0][0] + lane * lane_step + line * line_step;
    to += image * image_stride + c0 * channel_stride + p0 * pixel_stride + lane * to_lane + line * to_line;
    if (lane >= lanes) return;
#pragma unroll 8
    for (int u = 0; u < 64; u += 4) {
        T* at = to + u * to_line;
        if (line + u < lines) *at = from_acc<T>(blend(1.f, sums[u * line_step], beta, at));
    }
}
