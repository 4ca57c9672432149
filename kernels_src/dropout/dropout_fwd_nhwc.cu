/*@kernel
name   = "dropout_fwd_nhwc_{T}"
about  = "y = kept ? x / (1 - p) : 0 and its mask, x and y NHWC: eight channels at eight positions a thread."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["const T* x", "T* y", "u8* mask", "int64_t* states", "unsigned items", "FastDiv groups",
          "FastDiv octets", "unsigned upper", "unsigned lower", "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["blocks", 1, 1]
extra  = ["blocks"]
needs  = ["1 <= items < 2**31", "1 <= blocks < 2**24"]
problems = ["dropout_fwd x=2x24x4x6:{T}@nhwc y=2x24x4x6:{T}@nhwc p=0.55219268798828125",
            "dropout_fwd x=3x8x2x5x4:{T}@nhwc y=3x8x2x5x4:{T}@nhwc p=0.25"]
@*/
// The mask is in logical order: a thread has an octet of each of its channels, and turns their bits. `groups`
// of eight channels, `octets` of a channel.
#include "philox.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, u8* mask, int64_t* states, unsigned items, FastDiv groups, FastDiv octets,
    unsigned upper, unsigned lower, Acc_T factor) {
    __shared__ unsigned long long seen[2];
    const Draw draw = next_draw(states, seen);
    NO_UNROLL for (unsigned item = blockIdx.x * 256 + threadIdx.x; item < items; item += gridDim.x * 256) {
        const Patch p(item, groups, octets);
        unsigned long long rows = 0;
        _Pragma("unroll 2") for (int i = 0; i < 8; ++i) {
            const i64 octet = p.octet + i64(i) * octets.by;
            const unsigned bits = draw.kept(octet, {upper, lower}).bits();
            mask[octet] = u8(bits);
            rows |= (unsigned long long)bits << 8 * i;
        }
        select_rows(x + p.at, y + p.at, i64(groups.by) * 8, turned(rows), factor);
    }
}
