/*@kernel
name   = "fill_packed_{T}"
about  = "y = value, where memory has no gaps. 16 bytes a thread; y is aligned to 16 bytes."
T      = ["f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"]
params = ["T* y", "int64_t count", "Acc_T value"]
block  = [256, 1, 1]
grid   = ["ceil_div(count * sizeof(T), 4096)", 1, 1]
needs  = ["count >= 1"]
@*/
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(T* y, int64_t count, Acc_T value) {
    constexpr int width = 16 / sizeof(T);
    const int64_t first = (int64_t(blockIdx.x) * 256 + threadIdx.x) * width;
    Vec<T, width> out;
    UNROLL for (int i = 0; i < width; ++i) out[i] = from_acc<T>(value);
    if (first + width <= count) out.store(y + first);
    else UNROLL for (int i = 0; i < width; ++i)
        if (first + i < count) y[first + i] = out[i];
}
