/*@kernel
name   = "dropout_factors_{T}"
about  = "y = kept ? 1 / (1 - p) : 0 for the next draw of a generator: eight neighbours at once."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["T* y", "int64_t* states", "int64_t count", "unsigned upper", "unsigned lower", "Acc_T factor"]
block  = [256, 1, 1]
grid   = ["blocks", 1, 1]
extra  = ["blocks"]
needs  = ["1 <= count < 2**42", "1 <= blocks < 2**24"]
problems = ["dropout_factors y=3x55:{T} p=0.90950775146484375", "dropout_factors y=64x64:{T}",
            "dropout_factors y=8199:{T} p=0.1", "dropout_factors y=4101:{T} align=2"]
@*/
// y may lie at any multiple of its element: a vector only where all of it is aligned. Blocks as in
// dropout_fwd_vector.
#include "philox.cuh"
#include "select.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    T* y, int64_t* states, int64_t count, unsigned upper, unsigned lower, Acc_T factor) {
    __shared__ unsigned long long seen[2];
    const Draw draw = next_draw(states, seen);
    const i64 whole = (reinterpret_cast<uintptr_t>(y) & 15) == 0 ? count / 8 : 0;
    NO_UNROLL for (i64 octet = i64(blockIdx.x) * 256 + threadIdx.x; octet * 8 < count;
                   octet += i64(gridDim.x) * 256) {
        const unsigned bits = draw.kept(octet, {upper, lower}).bits();
        if (octet < whole) {
            Acc_T a[8];
            UNROLL for (int i = 0; i < 8; ++i) a[i] = bits >> i & 1 ? factor : Acc_T(0);
            Vec<T, 8>::of(a).store(y + octet * 8);
        } else {
            const int here = int(min(count - octet * 8, i64(8)));
            NO_UNROLL for (int i = 0; i < here; ++i)
                y[octet * 8 + i] = from_acc<T>(bits >> i & 1 ? factor : Acc_T(0));
        }
    }
}
