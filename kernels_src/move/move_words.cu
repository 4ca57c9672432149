/*@kernel
name   = "move_words_{W}"
about  = "Copy words of {W} bytes between any strides: word i of one walk to word i of another."
W      = [1, 2, 4, 8, 16]
params = ["const u8* x", "u8* y", "unsigned count", "Array<FastDiv, 8> x_dims", "Array<int64_t, 8> x_strides",
          "Array<FastDiv, 8> y_dims", "Array<int64_t, 8> y_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 1024)", 1, 1]
needs  = ["1 <= count < 2**31"]
problems = [
    """slice x=3x50x12x{16 // W * 8}:{'i8' if W == 1 else 'f16' if W == 2 else 'f32' if W == 4 else 'f64'} \
       start=1,0,2,0 step=1,2,1,{1 if W == 16 else 2}""",
    """reshape x=6x35x{16 // W}:{'u8' if W == 1 else 'bf16' if W == 2 else 'f32' if W == 4 else 'f64'} \
       y=14x15x{16 // W}:{'u8' if W == 1 else 'bf16' if W == 2 else 'f32' if W == 4 else 'f64'}""",
    """concatenate axis=1 inputs=\
3x40x{'5:i8' if W == 1 else '3:f16' if W == 2 else '5:f32' if W == 4 else '6:f32' if W == 8 else '8:f32'}+\
3x21x{'5:i8' if W == 1 else '3:f16' if W == 2 else '5:f32' if W == 4 else '6:f32' if W == 8 else '8:f32'}""",
    """slice x=2x3x2x3x2x3x2x120:{'i8' if W == 1 else 'f16' if W == 2 else 'f32' if W == 4 else 'f64'} \
       start=0,0,0,0,0,0,0,0 step=1,2,1,2,1,2,1,{1 if W == 16 else 2}""",
    "transpose x=2x3x3x2x2x2x2x8:f32 permutation=3,0,1,6,2,4,5,7"]
@*/
// Dims innermost first, strides in words. Where both addresses are one, the elements are there already.
#include "lib/walk.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const u8* x, u8* y, unsigned count, Array<FastDiv, 8> x_dims, Array<i64, 8> x_strides,
    Array<FastDiv, 8> y_dims, Array<i64, 8> y_strides) {
    using Access = typename Word<W>::type;
    const auto* from = reinterpret_cast<const Access*>(x);
    auto* to = reinterpret_cast<Access*>(y);
    if (x == y) return;
    const unsigned first = blockIdx.x * 1024 + threadIdx.x;
    if (first + 768 < count) {
        Access held[4];
        UNROLL for (int u = 0; u < 4; ++u) held[u] = from[offset_of(first + 256 * u, x_dims, x_strides)];
        UNROLL for (int u = 0; u < 4; ++u) to[offset_of(first + 256 * u, y_dims, y_strides)] = held[u];
        return;
    }
    NO_UNROLL for (unsigned i = first; i < count; i += 256)
        to[offset_of(i, y_dims, y_strides)] = from[offset_of(i, x_dims, x_strides)];
}
