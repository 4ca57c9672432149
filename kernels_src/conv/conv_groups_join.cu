/*@kernel
name   = "conv_groups_join_{T}"
about  = """Filters of several groups, or of several pixels, as those of one: {T}, channels last, zero where \
            a filter does not read a channel."""
T      = ["f16", "bf16"]
params = ["const T* w", "T* joined", "int count", "int group_channels", "FastDiv channels",
          "FastDiv filters", "FastDiv group_filters", "FastDiv groups", "Array<FastDiv, 3> taps",
          "int64_t w_k", "int64_t w_c", "Array<int64_t, 3> w_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "group_channels >= 1"]
problems = ["conv_fprop n2c128h6w7 k128r3s3 pad1 groups=16 {T} nhwc",
            "conv_fprop n1c24h4w4 k40r1s1 {T} nhwc",
            "conv_dgrad n1c64d3h5w6 k128t1r2s3 groups=4 mode=convolution {T} nhwc"]
@*/
// joined[k][tap][c], c of the joined channels: filter k of them is of group k / group_filters, which is the
// (that % groups)-th of its joined ones and reads `group_channels` channels from there on. It is filter
// k % filters of w: all pixels that are joined have the same filters.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* w, T* joined, int count, int group_channels, FastDiv channels, FastDiv filters,
    FastDiv group_filters, FastDiv groups, Array<FastDiv, 3> taps, i64 w_k, i64 w_c, Array<i64, 3> w_s) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned c, tap[3], rest = channels.divmod(i, c);
    UNROLL for (int d = 2; d >= 0; --d) rest = taps[d].divmod(rest, tap[d]);
    const int own = int(c) - int(groups.mod(group_filters.div(rest))) * group_channels;
    const bool reads = own >= 0 && own < group_channels;
    const i64 k = filters.mod(rest);
    joined[i] = reads ? w[k * w_k + own * w_c + tap[0] * w_s[0] + tap[1] * w_s[1] + tap[2] * w_s[2]]
                      : from_acc<T>(0.f);
}
