/*@kernel
name   = "conv_winograd_filter_{T}_{OUT}"
about  = "The 3x3 filters transformed for Winograd's OUT x OUT tiles, in f32, output channels fastest."
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
params = ["const T* w", "float* to", "int inputs", "int outputs", "int row", "int64_t w_in", "int64_t w_out",
          "int64_t w_r", "int64_t w_s", "int64_t point"]
block  = [32, 8, 1]
grid   = ["ceil_div(row, 32)", "ceil_div(inputs, 8)", 1]
needs  = ["inputs >= 1", "outputs >= 1", "row >= outputs"]
problems = ["conv_fprop n1c9h5w6 k33r3s3 pad1 {T}",
            "conv_fprop n1c3h5w6 k5r3s3 mode=convolution {T} nhwc",
            "conv_dgrad n1c9h5w6 k3r3s3 pad1 {T}"]
@*/
// to[point][input][row]: the filters of all output channels beside each other, and zeros up to `row`.
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* w, float* to, int inputs, int outputs, int row, i64 w_in, i64 w_out, i64 w_r, i64 w_s,
    i64 point) {
    using F = Winograd<OUT>;
    const int output = blockIdx.x * 32 + threadIdx.x, input = blockIdx.y * 8 + threadIdx.y;
    if (input >= inputs || output >= row) return;
    float columns[3][F::in];                                       // of G g, one array a column
    w += input * w_in + output * w_out;
    UNROLL for (int s = 0; s < 3; ++s) {
        float g[3] = {};
        if (output < outputs) UNROLL for (int r = 0; r < 3; ++r) g[r] = to_acc(w[r * w_r + s * w_s]);
        F::filter(g, columns[s]);
    }
    to += i64(input) * row + output;
    UNROLL for (int i = 0; i < F::in; ++i) {
        const float g[3] = {columns[0][i], columns[1][i], columns[2][i]};
        float u[F::in];
        F::filter(g, u);
        UNROLL for (int j = 0; j < F::in; ++j) to[(i * F::in + j) * point] = u[j];
    }
}
