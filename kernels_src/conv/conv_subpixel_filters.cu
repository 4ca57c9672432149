/*@kernel
name   = "conv_subpixel_filters_{T}"
about  = """Filters of a data gradient with a stride along the last dim as those of a unit stride there, of \
            neighbouring pixels joined: {T}, channels last, zero where a pixel meets no tap."""
T      = ["f16", "bf16"]
params = ["const T* w", "T* joined", "int count", "FastDiv channels", "FastDiv joined_channels",
          "Array<FastDiv, 3> taps", "int stride", "int first", "FastDiv dilation", "int w_taps",
          "int is_flipped", "int64_t w_k", "int64_t w_c", "Array<int64_t, 3> w_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "joined_channels == stride * channels", "w_taps >= 1"]
problems = ["conv_dgrad n2c32h6w8 k40r3s3 stride=2 pad=1 {T} nhwc",
            """conv_dgrad n1c16d3h4w9 k24t1r2s5 stride=1,2,3 dilation=1,1,2 pre_pad=0,1,2 post_pad=0,1,4 \
               mode=convolution {T} nhwc""",
            "conv_dgrad n3c64w10 k16r5 stride=2 pad=2 {T} nhwc"]
@*/
// joined[k][tap][c]: c of the joined channels is channel c % channels of pixel a = c / channels among
// `stride` neighbours, which meets, with tap t of the last dim, tap (a + first + stride * t) / dilation of
// w, where that is one. is_flipped: taps of the last dim, of both, are counted from the last one on.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* w, T* joined, int count, FastDiv channels, FastDiv joined_channels, Array<FastDiv, 3> taps,
    int stride, int first, FastDiv dilation, int w_taps, int is_flipped, i64 w_k, i64 w_c,
    Array<i64, 3> w_s) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned c, channel, tap[3], gap = 0, rest = joined_channels.divmod(i, c);
    UNROLL for (int d = 2; d >= 0; --d) rest = taps[d].divmod(rest, tap[d]);
    const int pixel = channels.divmod(c, channel);
    const int t = is_flipped ? int(taps[2].by - 1 - tap[2]) : int(tap[2]), at = pixel + first + stride * t;
    const int met = at < 0 ? w_taps : int(dilation.divmod(at, gap));
    const bool reads = met < w_taps && gap == 0;
    const int s = is_flipped ? w_taps - 1 - met : met;
    joined[i] = reads ? w[rest * w_k + channel * w_c + tap[0] * w_s[0] + tap[1] * w_s[1] + s * w_s[2]]
                      : from_acc<T>(0.f);
}
