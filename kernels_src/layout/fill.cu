/*@kernel
name   = "fill_{T}"
about  = "y = value, on any strides. One element a thread."
T      = ["f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"]
params = ["T* y", "int64_t count", "Array<FastDiv, 7> dims", "Array<int64_t, 8> strides", "Acc_T value"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1"]
@*/
// Element i of the tensor in row-major order is at y[sum of index[d] * strides[d]]. dims holds the sizes of dims 1 to 7,
// outermost first, with ones in front for a lower rank; dim 0 takes what is left of i.
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(T* y, int64_t count, Array<FastDiv, 7> dims,
                                                         Array<int64_t, 8> strides, Acc_T value) {
    const int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x;
    if (i >= count) return;
    int64_t left = i, off = 0;
    if (count <= INT32_MAX) {                                       // FastDiv's range
        UNROLL for (int d = 7; d > 0; --d) {
            unsigned index;
            left = dims[d - 1].divmod(unsigned(left), index);
            off += int64_t(index) * strides[d];
        }
    } else {
        UNROLL for (int d = 7; d > 0; --d) {
            off += left % dims[d - 1].by * strides[d];
            left /= dims[d - 1].by;
        }
    }
    y[off + left * strides[0]] = from_acc<T>(value);
}
