/*@kernel
name   = "conv_winograd_gradient_{T}_{OUT}_{LANES}"
about  = """Tiles of OUT x OUT gradients of an output, transformed for Winograd's gradient of 3x3 filters, \
            in f32. LANES: what is closest in the output."""
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
LANES  = ["by_tiles", "by_channels"]
params = ["const T* dy", "float* to", "int rows", "int channels", "int pitch", "int first", "int tiles",
          "FastDiv tiles_w", "FastDiv tiles_h", "Array<int, 2> size", "int64_t y_n", "int64_t y_c",
          "Array<int64_t, 2> y_s"]
block  = [32, 8, 1]
grid   = ["ceil_div(rows, 32 if LANES == 'by_tiles' else 8)",
          "ceil_div(pitch, 8 if LANES == 'by_tiles' else 32)", 1]
needs  = ["rows >= 1", "1 <= channels <= pitch", "tiles >= 1"]
problems = ["""conv_wgrad n2c4h7w6 k{5 if LANES == 'by_tiles' else 37}r3s3 pad1 {T} \
               {'nchw' if LANES == 'by_tiles' else 'nhwc'}""",
            """conv_wgrad n3c3h9w5 k12r3s3 pre_pad=0,2 post_pad=3,0 {T} \
               {'nchw' if LANES == 'by_tiles' else 'nhwc'}"""]
@*/
// by_tiles: to[point][channel][row], and pitch is the number of channels; by_channels:
// to[point][row][channel] in rows of `pitch`, zeros behind the last channel. Rows are tiles, counted over all
// images from `first` on; those behind the last are zeros, and so is what a tile has outside of the image. A
// thread transforms one tile of one channel.
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, float* to, int rows, int channels, int pitch, int first, int tiles, FastDiv tiles_w,
    FastDiv tiles_h, Array<int, 2> size, i64 y_n, i64 y_c, Array<i64, 2> y_s) {
    using F = Winograd<OUT>;
    constexpr bool inner = LANES == by_channels;
    const int row = inner ? blockIdx.x * 8 + threadIdx.y : blockIdx.x * 32 + threadIdx.x;
    const int channel = inner ? blockIdx.y * 32 + threadIdx.x : blockIdx.y * 8 + threadIdx.y;
    if (row >= rows || channel >= pitch) return;
    const unsigned tile = first + row;
    unsigned across, down;
    const unsigned image = tiles_h.divmod(tiles_w.divmod(tile, across), down);
    const int h = int(down) * OUT, w = int(across) * OUT;

    float lines[F::in][OUT] = {};                                  // G dy, one array a line
    if (tile < unsigned(tiles) && channel < channels) {
        dy += image * y_n + channel * y_c + h * y_s[0] + w * y_s[1];
        UNROLL for (int s = 0; s < OUT; ++s) {
            float g[OUT] = {}, u[F::in];
            UNROLL for (int r = 0; r < OUT; ++r)
                if (h + r < size[0] && w + s < size[1])
                    g[r] = to_acc(Vec<T, 1>::load_nc(dy + r * y_s[0] + s * y_s[1])[0]);
            F::gradient(g, u);
            UNROLL for (int r = 0; r < F::in; ++r) lines[r][s] = u[r];
        }
    }
    const i64 point = i64(rows) * pitch;
    to += inner ? i64(row) * pitch + channel : i64(channel) * rows + row;
    UNROLL for (int r = 0; r < F::in; ++r) {
        float u[F::in];
        F::gradient(lines[r], u);
        UNROLL for (int s = 0; s < F::in; ++s) to[(r * F::in + s) * point] = u[s];
    }
}
