/*@kernel
name   = "resample_bwd_apart_{MATH}_{LANES}"
about  = """dx of maxima by their indices, windows side by side: a thread has eight channels of a window, or \
            one, and stores all of its cells."""
MATH   = ["f32", "f64"]
LANES  = [1, 8]
params = ["int items", "int channels_inner", "Array<int, 3> window", "Array<FastDiv, 4> digits",
          "Array<int64_t, 5> dy_strides", "Array<int64_t, 5> index_strides", "Array<int64_t, 5> dx_strides",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31 - 256", "channels_inner >= LANES // 8"]
marks  = ["load_dy", "load_index", "store"]
problems = [
    """resample_bwd dy=2x{16 if LANES == 8 else 3}x4x3:{'f16' if MATH == f32 else 'f64'}@nhwc \
       dx=2x{16 if LANES == 8 else 3}x8x9:{'f32' if MATH == f32 else 'f64'}@nhwc \
       index=2x{16 if LANES == 8 else 3}x4x3:i8@nhwc window=2,3 stride=2,3 mode=max padding=neg_inf \
       acc={MATH}""",
    """resample_bwd \
       dy=2x{8 if LANES == 8 else 3}x2x3x2:{'bf16' if MATH == f32 else 'f64'}{'@nhwc' if LANES == 8 else ''} \
       dx=2x{8 if LANES == 8 else 3}x4x3x4:{'f16' if MATH == f32 else 'f64'}{'@nhwc' if LANES == 8 else ''} \
       index=2x{8 if LANES == 8 else 3}x2x3x2:i64{'@nhwc' if LANES == 8 else ''} window=2,1,2 stride=2,1,2 \
       mode=max padding=neg_inf acc={MATH}"""]
@*/
// Digits and strides as in resample_fwd_any, of dy.
#include "resample/resample.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    int items, int channels_inner, Array<int, 3> window, Array<FastDiv, 4> digits, Array<i64, 5> dy_strides,
    Array<i64, 5> index_strides, Array<i64, 5> dx_strides, Fuse fuse) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= unsigned(items)) return;
    unsigned e[4], n = item;
    UNROLL for (int k = 0; k < 4; ++k) n = digits[k].divmod(n, e[k]);
    const bool inner = LANES > 1 || channels_inner;
    const unsigned c = (inner ? e[0] : e[3]) * LANES;
    const unsigned channels = (inner ? digits[0].by : digits[3].by) * LANES;
    int at[3], outs[3];
    UNROLL for (int k = 0; k < 3; ++k) {
        at[k] = inner ? e[k + 1] : e[k];
        outs[k] = inner ? int(digits[k + 1].by) : int(digits[k].by);
    }
    const auto place = [&](const Array<i64, 5>& s, int d, int h, int w) {
        return n * s[4] + c * s[3] + d * s[2] + h * s[1] + w * s[0];
    };
    MATH dy[LANES] = {}, number[LANES] = {};
    fuse_load_dy(dy, place(dy_strides, at[2], at[1], at[0]), c);
    fuse_load_index(number, place(index_strides, at[2], at[1], at[0]), c);
    const i64 to = place(dx_strides, at[2] * window[2], at[1] * window[1], at[0] * window[0]);
    const unsigned plane = inner ? n : n * channels + c;
    int tap = 0;
    NO_UNROLL for (int d = 0; d < window[2]; ++d)
        NO_UNROLL for (int h = 0; h < window[1]; ++h) {
            const unsigned deep = plane * (outs[2] * window[2]) + at[2] * window[2] + d;
            const unsigned row = deep * (outs[1] * window[1]) + at[1] * window[1] + h;
            NO_UNROLL for (int w = 0; w < window[0]; ++w, ++tap) {
                MATH v[LANES];
                UNROLL for (int i = 0; i < LANES; ++i) v[i] = number[i] == MATH(tap) ? dy[i] : MATH(0);
                const unsigned pixel = row * (outs[0] * window[0]) + at[0] * window[0] + w;
                fuse_store(v, to + d * dx_strides[2] + h * dx_strides[1] + w * dx_strides[0],
                           inner ? pixel * channels + c : pixel);
            }
        }
}
