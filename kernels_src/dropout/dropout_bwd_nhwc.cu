/*@kernel
name   = "dropout_bwd_nhwc_{T}"
about  = "dx = kept ? dy / (1 - p) : 0, dy and dx NHWC: eight channels at eight positions a thread."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["const T* dy", "const u8* mask", "T* dx", "unsigned items", "FastDiv groups", "FastDiv octets",
          "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
problems = ["dropout_bwd dy=2x24x4x6:{T}@nhwc mask=144:u8 dx=2x24x4x6:{T}@nhwc p=0.3",
            "dropout_bwd dy=3x8x2x5x4:{T}@nhwc mask=120:u8 dx=3x8x2x5x4:{T}@nhwc p=0.75"]
@*/
// As dropout_fwd_nhwc.
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, const u8* mask, T* dx, unsigned items, FastDiv groups, FastDiv octets, Acc_T factor) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned g, o;
    const unsigned n = octets.divmod(groups.divmod(item, g), o);
    const Patch p(n, o, g, groups.by, octets.by);
    Rows<T> held;
    held.load(dy + p.at, i64(groups.by) * 8);
    unsigned long long rows = 0;
    UNROLL for (int i = 0; i < 8; ++i)
        rows |= (unsigned long long)mask[p.octet + i64(i) * octets.by] << 8 * i;
    held.select(dy + p.at, dx + p.at, i64(groups.by) * 8, turned(rows), factor);
}
