/*@kernel
name   = "conv_winograd_input_{T}_{OUT}_{LANES}"
about  = """Tiles of an image, overlapping by two pixels, transformed for Winograd's OUT x OUT tiles, in \
            f32. LANES: what is closest in the image."""
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
LANES  = ["by_tiles", "by_channels"]
params = ["const T* x", "float* to", "int rows", "int channels", "int first", "int tiles",
          "FastDiv tiles_w", "FastDiv tiles_h", "Array<int, 2> size", "Array<int, 2> pad",
          "int64_t x_n", "int64_t x_c", "Array<int64_t, 2> x_s"]
block  = [32, 8, 1]
grid   = ["ceil_div(rows, 32 if LANES == 'by_tiles' else 8)",
          "ceil_div(channels, 8 if LANES == 'by_tiles' else 32)", 1]
needs  = ["rows >= 1", "channels >= 1", "tiles >= 1"]
problems = ["""conv_fprop n2c{5 if LANES == 'by_tiles' else 37}h7w6 k4r3s3 pad1 {T} \
               {'nchw' if LANES == 'by_tiles' else 'nhwc'}""",
            """conv_fprop n2c12h9w5 k4r3s3 pre_pad=0,2 post_pad=3,0 {T} \
               {'nchw' if LANES == 'by_tiles' else 'nhwc'}""",
            "conv_dgrad n2c5h7w6 k6r3s3 pad3 {T} {'nchw' if LANES == 'by_tiles' else 'nhwc'}"]
@*/
// to[point][channel][row]: rows are tiles, counted over all images from `first` on; those behind the
// last are zeros. A thread transforms one tile of one channel: a warp is 32 tiles of a channel, or
// 32 channels of a tile, which then change places in shared memory.
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, float* to, int rows, int channels, int first, int tiles, FastDiv tiles_w, FastDiv tiles_h,
    Array<int, 2> size, Array<int, 2> pad, i64 x_n, i64 x_c, Array<i64, 2> x_s) {
    using F = Winograd<OUT>;
    constexpr bool turn = LANES == by_channels;
    const i64 point = i64(rows) * channels;
    const int row0 = blockIdx.x * (turn ? 8 : 32), channel0 = blockIdx.y * (turn ? 32 : 8);
    const int row = row0 + (turn ? threadIdx.y : threadIdx.x);
    const int channel = channel0 + (turn ? threadIdx.x : threadIdx.y);
    const unsigned tile = first + row;
    unsigned across, down;
    const unsigned image = tiles_h.divmod(tiles_w.divmod(tile, across), down);
    const int h = int(down) * OUT - pad[0], w = int(across) * OUT - pad[1];

    float d[F::in][F::in] = {};
    if (tile < unsigned(tiles) && row < rows && channel < channels) {
        x += image * x_n + channel * x_c + h * x_s[0] + w * x_s[1];
        UNROLL for (int r = 0; r < F::in; ++r)
            UNROLL for (int s = 0; s < F::in; ++s)
                if (unsigned(h + r) < unsigned(size[0]) && unsigned(w + s) < unsigned(size[1]))
                    d[r][s] = to_acc(Vec<T, 1>::load_nc(x + r * x_s[0] + s * x_s[1])[0]);
    }
    UNROLL for (int s = 0; s < F::in; ++s) {
        float v[F::in];
        UNROLL for (int r = 0; r < F::in; ++r) v[r] = d[r][s];
        F::input(v);
        UNROLL for (int r = 0; r < F::in; ++r) d[r][s] = v[r];
    }
    UNROLL for (int r = 0; r < F::in; ++r) F::input(d[r]);

    if constexpr (!turn) {
        if (row >= rows || channel >= channels) return;
        to += i64(channel) * rows + row;
        UNROLL for (int r = 0; r < F::in; ++r)
            UNROLL for (int s = 0; s < F::in; ++s) to[(r * F::in + s) * point] = d[r][s];
    } else {
        __shared__ float turned[F::in][32][9];                     // [point][channel][row]
        const int t = threadIdx.y * 32 + threadIdx.x, my_row = t % 8, my_channel = t / 8;
        const bool mine = row0 + my_row < rows && channel0 + my_channel < channels;
        to += i64(channel0 + my_channel) * rows + row0 + my_row;
        UNROLL for (int r = 0; r < F::in; ++r) {
            UNROLL for (int s = 0; s < F::in; ++s) turned[s][threadIdx.x][threadIdx.y] = d[r][s];
            __syncthreads();
            UNROLL for (int s = 0; s < F::in; ++s)
                if (mine) to[(r * F::in + s) * point] = turned[s][my_channel][my_row];
            __syncthreads();
        }
    }
}
