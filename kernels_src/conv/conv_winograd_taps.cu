/*@kernel
name   = "conv_winograd_taps_{T}_{OUT}"
about  = "Winograd's sums over OUT x OUT tiles transformed to gradients of 3x3 filters, scaled and blended."
T      = ["f32", "f16", "bf16"]
OUT    = [2, 4]
params = ["const float* from", "T* dw", "float alpha", "float beta", "int inputs", "int outputs",
          "int64_t w_in", "int64_t w_out", "int64_t w_r", "int64_t w_s", "int64_t point"]
block  = [32, 8, 1]
grid   = ["ceil_div(inputs, 32)", "ceil_div(outputs, 8)", 1]
needs  = ["inputs >= 1", "outputs >= 1"]
problems = ["conv_wgrad n1c33h5w6 k9r3s3 pad1 {T}",
            "conv_wgrad n1c5h5w6 k3r3s3 mode=convolution {T} nhwc",
            "conv_wgrad n2c3h4w4 k10r3s3 pad1 {T} nhwc"]
@*/
// from[point][output][input].
#include "conv/winograd.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const float* from, T* dw, float alpha, float beta, int inputs, int outputs, i64 w_in, i64 w_out, i64 w_r,
    i64 w_s, i64 point) {
    using F = Winograd<OUT>;
    const int input = blockIdx.x * 32 + threadIdx.x, output = blockIdx.y * 8 + threadIdx.y;
    if (input >= inputs || output >= outputs) return;
    from += i64(output) * inputs + input;
    float lines[3][F::in];                                         // A^T m, one array a line
    UNROLL for (int s = 0; s < F::in; ++s) {
        float m[F::in], v[3];
        UNROLL for (int r = 0; r < F::in; ++r) m[r] = __ldg(from + (r * F::in + s) * point);
        F::taps(m, v);
        UNROLL for (int r = 0; r < 3; ++r) lines[r][s] = v[r];
    }
    dw += output * w_out + input * w_in;
    UNROLL for (int r = 0; r < 3; ++r) {
        float v[3];
        F::taps(lines[r], v);
        UNROLL for (int s = 0; s < 3; ++s) {
            T* to = dw + r * w_r + s * w_s;
            *to = from_acc<T>(blend(alpha, v[s], beta, to));
        }
    }
}
