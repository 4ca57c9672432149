/*@kernel
name   = "dropout_bwd_any_{T}"
about  = "dx = kept ? dy / (1 - p) : 0 on any dims and strides: an element a thread."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* dy", "const u8* mask", "T* dx", "unsigned count", "Acc_T factor",
          "Array<FastDiv, 8> dy_dims", "Array<int64_t, 8> dy_strides", "Array<FastDiv, 8> dx_dims",
          "Array<int64_t, 8> dx_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["1 <= count < 2**31"]
problems = ["dropout_bwd dy=3x5x11x2:{T}@nhwc mask=42:u8 dx=3x110:{T}@117,1 p=0.3",
            """dropout_bwd dy=2x3x3x2x2x2x5x3:{T}@6000,1900,600,290,140,60,3,1 mask=270:u8 dx=72x30:{T}@31,1 \
               p=0.9""",
            "dropout_bwd dy=2160:{T} mask=270:u8 dx=4x6x9x10:{T}@700,110,11,1"]
@*/
#include "lib/walk.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, const u8* mask, T* dx, unsigned count, Acc_T factor, Array<FastDiv, 8> dy_dims,
    Array<i64, 8> dy_strides, Array<FastDiv, 8> dx_dims, Array<i64, 8> dx_strides) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    const unsigned bit = mask[i / 8] >> i % 8 & 1;
    dx[offset_of(i, dx_dims, dx_strides)] = chosen(dy[offset_of(i, dy_dims, dy_strides)], bit, factor);
}
