/*@kernel
name   = "conv_winograd_input_{T}_{OUT}"
about  = "Tiles of an image, overlapping by two pixels, transformed for Winograd's OUT x OUT tiles, in f32."
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
params = ["const T* x", "float* to", "int count", "int first", "int tiles", "int channel_inner",
          "FastDiv inner", "FastDiv tiles_w", "FastDiv tiles_h", "Array<int, 2> size", "Array<int, 2> pad",
          "int64_t x_n", "int64_t x_c", "Array<int64_t, 2> x_s", "int64_t point"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "tiles >= 1"]
problems = ["conv_fprop n2c5h7w6 k4r3s3 pad1 {T}",
            "conv_fprop n2c12h9w5 k4r3s3 pre_pad=0,2 post_pad=3,0 {T} nhwc",
            "conv_dgrad n2c5h7w6 k6r3s3 pad3 {T}"]
@*/
// to[point][tile][channel] where channels are neighbours in x (channel_inner), else to[point][channel][tile]:
// `inner` is the length of a row. Tiles are counted over all images; those behind the last are
// zeros. A thread transforms one tile of one channel.
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, float* to, int count, int first, int tiles, int channel_inner, FastDiv inner,
    FastDiv tiles_w, FastDiv tiles_h, Array<int, 2> size, Array<int, 2> pad, i64 x_n, i64 x_c,
    Array<i64, 2> x_s, i64 point) {
    using F = Winograd<OUT>;
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned fast, col, row;
    const unsigned slow = inner.divmod(i, fast);
    const unsigned channel = channel_inner ? fast : slow, tile = first + (channel_inner ? slow : fast);
    const unsigned image = tiles_h.divmod(tiles_w.divmod(tile, col), row);
    const int h = int(row) * OUT - pad[0], w = int(col) * OUT - pad[1];

    float d[F::in][F::in] = {};
    if (tile < unsigned(tiles)) {
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
    to += i;
    UNROLL for (int r = 0; r < F::in; ++r) {
        F::input(d[r]);
        UNROLL for (int s = 0; s < F::in; ++s) to[(r * F::in + s) * point] = d[r][s];
    }
}
