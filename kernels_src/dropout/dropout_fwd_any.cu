/*@kernel
name   = "dropout_fwd_any_{T}"
about  = "y = kept ? x / (1 - p) : 0 and its mask on any dims and strides: an octet a thread."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* x", "T* y", "u8* mask", "int64_t* states", "unsigned count", "unsigned upper",
          "unsigned lower", "Acc_T factor", "Array<FastDiv, 8> x_dims", "Array<int64_t, 8> x_strides",
          "Array<FastDiv, 8> y_dims", "Array<int64_t, 8> y_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 2048)", 1, 1]
needs  = ["1 <= count < 2**31"]
problems = ["dropout_fwd x=3x5x11x2:{T}@nhwc y=3x110:{T}@117,1 p=0.55219268798828125",
            "dropout_fwd x=2x3x3x2x2x2x5x3:{T}@6000,1900,600,290,140,60,3,1 y=72x30:{T}@31,1 p=0.9",
            "dropout_fwd x=2160:{T} y=4x6x9x10:{T}@700,110,11,1",
            "dropout_fwd x=3x4099:{T}@1,3 y=3x4099:{T}"]
@*/
#include "lib/walk.cuh"
#include "philox.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, u8* mask, int64_t* states, unsigned count, unsigned upper, unsigned lower, Acc_T factor,
    Array<FastDiv, 8> x_dims, Array<i64, 8> x_strides, Array<FastDiv, 8> y_dims, Array<i64, 8> y_strides) {
    __shared__ unsigned long long seen[2];
    const unsigned octet = blockIdx.x * 256 + threadIdx.x;
    const Draw draw = next_draw(states, seen);
    if (octet < (count + 7) / 8) {
        const unsigned here = min(count - octet * 8, 8u);
        const unsigned bits = draw.kept(octet, {upper, lower}).bits() & (1u << here) - 1;
        mask[octet] = u8(bits);
        NO_UNROLL for (unsigned i = 0; i < here; ++i)
            y[offset_of(octet * 8 + i, y_dims, y_strides)] =
                chosen(x[offset_of(octet * 8 + i, x_dims, x_strides)], bits >> i & 1, factor);
    }
}
