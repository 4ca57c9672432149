/*@kernel
name   = "conv_groups_part_{T}"
about  = """The filter gradients of groups out of those of joined groups, or of joined pixels: what a filter \
            reads, added up, scaled and blended."""
T      = ["f16", "bf16"]
params = ["const float* joined", "T* dw", "float alpha", "float beta", "int count", "int channels",
          "int filters", "int pixels", "FastDiv group_channels", "FastDiv group_filters", "FastDiv groups",
          "Array<FastDiv, 3> taps",
          "int64_t dw_k", "int64_t dw_c", "Array<int64_t, 3> dw_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "pixels >= 1"]
problems = ["conv_wgrad n2c128h6w7 k128r3s3 pad1 groups=16 {T} nhwc",
            "conv_wgrad n1c32h4w8 k16r1s1 {T} nhwc", "conv_wgrad n1c16h4w16 k24r1s1 {T} nhwc",
            "conv_wgrad n1c32h4w8 k32r1s1 {T} nhwc",
            "conv_wgrad n1c64d3h5w6 k128t1r2s3 groups=4 mode=convolution {T} nhwc"]
@*/
// joined[k][tap][c] as in conv_groups_join; dw[k, own, tap] for the channels that filter k reads, the sum of
// those of `pixels` joined pixels, `filters` from each other.
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const float* joined, T* dw, float alpha, float beta, int count, int channels, int filters,
    int pixels, FastDiv group_channels, FastDiv group_filters, FastDiv groups, Array<FastDiv, 3> taps,
    i64 dw_k, i64 dw_c, Array<i64, 3> dw_s) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    unsigned own, tap[3];
    const unsigned row = group_channels.divmod(i, own);              // filter and tap
    unsigned rest = row;
    UNROLL for (int d = 2; d >= 0; --d) rest = taps[d].divmod(rest, tap[d]);
    const unsigned c = groups.mod(group_filters.div(rest)) * group_channels.by + own;
    const i64 off = rest * dw_k + own * dw_c + tap[0] * dw_s[0] + tap[1] * dw_s[1] + tap[2] * dw_s[2];
    const float* from = joined + i64(row) * channels + c;
    float sum = 0.f;
    for (int p = 0; p < pixels; ++p) sum += from[p * (i64(filters) * channels + group_channels.by)];
    dw[off] = from_acc<T>(blend(alpha, sum, beta, dw + off));
}
