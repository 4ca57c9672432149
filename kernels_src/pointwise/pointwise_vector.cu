/*@kernel
name   = "pointwise_vector_{T}"
about  = "y = alpha * R + beta * y with a spliced R, where y has no gaps. Two vectors of 16 bytes a thread."
T      = ["f64", "f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
when   = ["sm == 75 or T == bf16"]
params = ["T* y", "int64_t count", "Acc_T alpha", "Acc_T beta", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(count * sizeof(T), 8192)", 1, 1]
needs  = ["count >= 1", "count * sizeof(T) <= 16 * (2**31 - 512)"]
marks  = ["value"]
problems = ["pointwise x=3x5x11:{T} b=3x5x11:{T} mode=add",
            "pointwise x=3x3001:{T} b=3x3001:{T} mode=add",
            "pointwise x=8192:{T} b=8192:{T} y=8192:{T} mode=add"]
@*/
// All inputs are read by spliced code: at `off` those laid out like y, others by the number of the
// vector, `vec`, in the order of y's memory. The mark's first value is what R replaces; more outputs
// are stored by spliced code.
#include "lib/epilogue.cuh"
#include "lib/math.cuh"

template <int Count>
DEVICE void finish(T* y, i64 off, Acc_T alpha, Acc_T beta, Acc_T (&v)[Count]) {
    if (beta != 0) {
        Acc_T old[Count];
        Vec<T, Count>::load(y + off).get(old);
        UNROLL for (int i = 0; i < Count; ++i) v[i] = alpha * v[i] + beta * old[i];
    } else {
        UNROLL for (int i = 0; i < Count; ++i) v[i] *= alpha;
    }
    Vec<T, Count>::of(v).store(y + off);
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    T* y, int64_t count, Acc_T alpha, Acc_T beta, Fuse fuse) {
    constexpr int width = 16 / sizeof(T);
    const i64 first = i64(blockIdx.x) * 512 + threadIdx.x;              // in vectors

    if ((i64(blockIdx.x) + 1) * 512 * width <= count) {
        // A full block: both vectors' loads are under way at once.
        Acc_T v[2][width];
        UNROLL for (int u = 0; u < 2; ++u) {
            UNROLL for (int i = 0; i < width; ++i) v[u][i] = 0;
            fuse_vector(v[u], (first + 256 * u) * width, unsigned(first + 256 * u));
        }
        UNROLL for (int u = 0; u < 2; ++u) finish(y, (first + 256 * u) * width, alpha, beta, v[u]);
        return;
    }
    NO_UNROLL for (i64 w = first; w < first + 512; w += 256) {
        const i64 off = w * width;
        if (off + width <= count) {
            Acc_T v[width] = {};
            fuse_vector(v, off, unsigned(w));
            finish(y, off, alpha, beta, v);
        } else {
            NO_UNROLL for (i64 i = off; i < count; ++i) {
                Acc_T v[1] = {};
                fuse_vector(v, i, unsigned(w));
                finish(y, i, alpha, beta, v);
            }
        }
    }
}
