/*@kernel
name    = "conv_mma_pack_{T}"
about   = """A tensor with dense pixels, any channel stride, as NHWC with the channels of a pixel padded by \
             zeros to a multiple of 8, or to one of 64."""
T       = ["f16", "bf16"]
targets = ["sm_75"]
params  = ["const T* from", "T* to", "int images", "int channels", "int pixels", "int padded",
           "int64_t image_stride", "int64_t channel_stride", "int64_t pixel_stride", "FastDiv pixel_tiles"]
block   = [256, 1, 1]
grid    = ["images * pixel_tiles", "ceil_div(padded, 64)", 1]
needs   = ["padded % {line(T) // 8} == 0", "padded >= channels",
           "padded < channels + {line(T)}",
           "pixel_tiles == ceil_div(pixels, 64)"]
problems = ["conv_fprop n2c5h4w5 k8r1s1 {T}",
            "conv_fprop x=2x133x5x14:{T}@9400,70,14,1 w=8x133x1x1:{T} y=2x8x5x14:{T}",
            "conv_fprop n2c64h8w8 k8r1s1 {T}",
            "conv_fprop x=2x133x5x14:{T}@9520,1,1904,136 w=8x133x1x1:{T} y=2x8x5x14:{T}"]
@*/
// A block moves 64 pixels by 64 channels of an image through shared memory. Reading, neighbouring lanes
// follow the smaller of the two strides; writing, neighbours (of a pixel) write 16 bytes each. A row has
// 66 elements: an odd number of 4-byte banks.
#include "lib/mma.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* from, T* to, int images, int channels, int pixels, int padded, int64_t image_stride,
    int64_t channel_stride, int64_t pixel_stride, FastDiv pixel_tiles) {
    __shared__ T tile[64][66];
    unsigned pixel_tile;
    const int64_t image = pixel_tiles.divmod(blockIdx.x, pixel_tile);
    const int p0 = pixel_tile * 64, c0 = blockIdx.y * 64;
    const unsigned thread = threadIdx.x;
    const int width = min(64, padded - c0), live = min(64, channels - c0), pixels_left = pixels - p0;
    from += image * image_stride + c0 * channel_stride + p0 * pixel_stride;
    if (pixel_stride < channel_stride) {
        const int p = thread % 64;
        from += p * pixel_stride;
#pragma unroll 8
        for (int c = thread / 64; c < width; c += 4)
            tile[p][c] = c < live && p < pixels_left ? from[c * channel_stride] : from_acc<T>(0.f);
    } else {
        // Few channels: consecutive lanes stay consecutive in memory.
        for (int i = thread; i < live * 64; i += 256) {
            const int p = unsigned(i) / unsigned(live), c = i - p * live;
            if (p < pixels_left) tile[p][c] = from[c * channel_stride + p * pixel_stride];
        }
        NO_UNROLL for (unsigned i = thread; i < (width - live) * 64u; i += 256)
            tile[i % 64][live + i / 64] = from_acc<T>(0.f);
    }
    __syncthreads();
    constexpr int each = MmaElem<T>::chunk;
    const unsigned chunks = width / unsigned(each);
    for (unsigned i = thread; i < chunks * 64; i += 256) {
        const int p = i / chunks, c = (i - p * chunks) * each;
        if (p >= pixels_left) break;                                // p only grows with i
        Vec<T, each> v;
        UNROLL for (int e = 0; e < each; ++e) v[e] = tile[p][c + e];
        v.store(to + (image * pixels + p0 + p) * padded + c0 + c);
    }
}
