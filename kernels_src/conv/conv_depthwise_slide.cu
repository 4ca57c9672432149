/*@kernel
name   = "conv_depthwise_slide_k{K}s{S}_{T}"
about  = """Depthwise convolution of channels-last images, filters of {K}x{K}, stride {S}: \
            a thread walks down the image and reads each row once."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
S      = [1, 2]
targets = ["sm_80"]
params = ["const T* x", "const T* w", "T* y", "float alpha", "float beta", "int channels", "int strips",
          "int rows", "FastDiv across", "FastDiv down", "Array<int, 2> out", "Array<int, 2> size",
          "Array<int, 2> pad", "int64_t x_n", "Array<int64_t, 2> x_s", "int64_t w_c",
          "Array<int64_t, 2> w_s", "int64_t y_n", "Array<int64_t, 2> y_s", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["ceil_div(strips, 8) * ceil_div(channels, 32)", 1, 1]
smem   = "K * K * 128 + 8 * (S * ((7 if S == 1 else 6) + K) * (256 if sizeof(T) < 4 else 384) + 64)"
needs  = ["channels % (16 // sizeof(T)) == 0", "channels >= 1", "strips >= 1", "rows >= 1"]
marks  = ["epilogue"]
problems = ["conv_fprop n2c40h11w13 k40r{K}s{K} pad={K // 2} stride={S} groups=40 {T} nhwc",
            """conv_fprop n1c8h9w18 k8r{K}s{K} pre_pad=0,{K // 2} post_pad=1,{K // 2} stride={S} groups=8 \
               mode=convolution {T} nhwc"""]
@*/
#include "conv/depthwise_slide.cuh"

extern "C" __global__ __launch_bounds__(128, S > 1 ? 1 : K == 3 ? 5 : K == 5 ? 4 : 3) void KERNEL(
    const T* x, const T* w, T* y, float alpha, float beta, int channels, int strips, int rows, FastDiv across,
    FastDiv down, Array<int, 2> out, Array<int, 2> size, Array<int, 2> pad, i64 x_n, Array<i64, 2> x_s,
    i64 w_c, Array<i64, 2> w_s, i64 y_n, Array<i64, 2> y_s, Fuse fuse) {
    slide<K, S, false>(x, w, y, alpha, beta, channels, strips, rows, across, down, out, size, pad, x_n, x_s,
                  w_c, w_s, y_n, y_s);
}
