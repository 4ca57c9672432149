/*@kernel
name   = "conv_winograd_output_{T}_{OUT}"
about  = "Winograd's products transformed to OUT x OUT outputs a tile, scaled and blended."
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
params = ["const float* from", "T* y", "float alpha", "float beta", "int count", "int first", "int tiles",
          "int channels", "int channel_inner", "int vectors", "FastDiv inner", "FastDiv tiles_w",
          "FastDiv tiles_h", "Array<int, 2> size", "int64_t y_n", "int64_t y_c", "Array<int64_t, 2> y_s",
          "int64_t point"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "tiles >= 1"]
problems = ["conv_fprop n2c3h7w6 k5r3s3 pad1 {T}",
            "conv_fprop n2c3h8w8 k5r3s3 pad1 {T}",
            "conv_fprop n2c3h9w5 k6r3s3 pad1 {T} nhwc",
            "conv_dgrad n2c5h7w6 k3r3s3 {T}"]
@*/
// from[point][tile][channel] or from[point][channel][tile], as conv_winograd_input writes. `vectors`: a row
// of a tile is one aligned vector in y, and y's rows are whole vectors.
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const float* from, T* y, float alpha, float beta, int count, int first, int tiles, int channels,
    int channel_inner, int vectors, FastDiv inner, FastDiv tiles_w, FastDiv tiles_h, Array<int, 2> size,
    i64 y_n, i64 y_c, Array<i64, 2> y_s, i64 point) {
    using F = Winograd<OUT>;
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned fast, col, row;
    const unsigned slow = inner.divmod(i, fast);
    const unsigned channel = channel_inner ? fast : slow, tile = first + (channel_inner ? slow : fast);
    if (tile >= unsigned(tiles) || channel >= unsigned(channels)) return;
    const unsigned image = tiles_h.divmod(tiles_w.divmod(tile, col), row);
    const int h = row * OUT, w = col * OUT;

    float lines[OUT][F::in];
    from += i;
    UNROLL for (int s = 0; s < F::in; ++s) {
        float m[F::in], v[OUT];
        UNROLL for (int r = 0; r < F::in; ++r) m[r] = __ldg(from + (r * F::in + s) * point);
        F::output(m, v);
        UNROLL for (int r = 0; r < OUT; ++r) lines[r][s] = v[r];
    }
    y += image * y_n + channel * y_c + h * y_s[0] + w * y_s[1];
    UNROLL for (int r = 0; r < OUT; ++r) {
        if (h + r >= size[0]) break;
        float v[OUT];
        F::output(lines[r], v);
        T* to = y + r * y_s[0];
        if (vectors) {
            Vec<T, OUT> old = {};
            if (beta != 0.f) old = Vec<T, OUT>::load(to);
            UNROLL for (int s = 0; s < OUT; ++s) v[s] = blend(alpha, v[s], beta, &old[s]);
            Vec<T, OUT>::of(v).store(to);
        } else {
            UNROLL for (int s = 0; s < OUT; ++s)
                if (w + s < size[1]) to[s * y_s[1]] = from_acc<T>(blend(alpha, v[s], beta, to + s * y_s[1]));
        }
    }
}
