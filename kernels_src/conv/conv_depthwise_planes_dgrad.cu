/*@kernel
name   = "conv_depthwise_planes_dgrad_k{K}_{T}"
about  = """Data gradient of a depthwise convolution of NCHW images, filters of {K}x{K}, stride 1: planes \
            lie in shared memory, and a thread walks down two columns."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
targets = ["sm_80"]
params = ["const T* x", "const T* w", "T* y", "float alpha", "float beta", "int planes", "int group",
          "int strips", "int rows", "FastDiv bands", "FastDiv pairs", "FastDiv of_strips",
          "FastDiv channels", "Array<int, 2> out", "Array<int, 2> size", "Array<int, 2> pad", "int64_t w_c",
          "Array<int64_t, 2> w_s"]
block  = [128, 1, 1]
grid   = ["ceil_div(planes, group) * bands", 1, 1]
smem   = "stage_bytes"
extra  = ["stage_bytes"]
needs  = ["planes >= 1", "group >= 1", "strips >= 1", "rows >= 1", "of_strips == strips",
          "pairs == ceil_div(out[1], 2)", "group == 1 or bands == 1 and group * strips * pairs <= 128",
          "bands * strips * rows >= out[0]",
          """stage_bytes >= 96 + {sizeof(T)} * size[1] * (group * size[0] if group > 1 else \
             min(size[0], strips * rows - 1 + {K}))"""]
problems = ["conv_dgrad n2c5h11w13 k5r{K}s{K} pad={K // 2} groups=5 {T}",
            """conv_dgrad n1c3h9w18 k3r{K}s{K} pre_pad=0,{K // 2} post_pad=1,{K // 2} groups=3 \
               mode=convolution {T}""",
            "conv_dgrad n1c1h8w263 k1r{K}s{K} pad={K // 2} groups=1 {T}"]
@*/
// The forward kernel on dy with the filter read backwards: x is dy, y is dx, pad is K - 1 - pad.
#include "conv/depthwise_planes.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, const T* w, T* y, float alpha, float beta, int planes, int group, int strips, int rows,
    FastDiv bands, FastDiv pairs, FastDiv of_strips, FastDiv channels, Array<int, 2> out,
    Array<int, 2> size, Array<int, 2> pad, i64 w_c, Array<i64, 2> w_s) {
    const PlaneCut cut = {planes, group, strips, rows, bands, pairs, of_strips, out, size};
    walk_planes<K, 1, true>(x, w, y, alpha, beta, cut, channels, pad, w_c, w_s);
}
