/*@kernel
name   = "softmax_fwd_packed_{T}_{MOST}"
about  = """Softmax of rows of up to {MOST} columns without gaps: a thread a row, tiles of rows pass through \
            shared memory. One read, one write."""
T      = ["f32", "f16", "bf16"]
MOST   = [16, 32, 64]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "int rows", "int cols", "int each", "int is_log", "float alpha", "float beta"]
block  = [128, 1, 1]
grid   = ["ceil_div(rows, 128 * each)", 1, 1]
smem   = "128 * each * cols * sizeof(T)"
needs  = ["rows >= 1", "1 <= cols", "cols <= MOST", "each >= 1"]
problems = ["softmax_fwd 301x{MOST - 1} {T}", "softmax_fwd 129x{MOST // 2 + 1} {T} algorithm=log",
            "softmax_fwd 33x{MOST} {T}", "softmax_fwd 33x{MOST} {T} algorithm=log"]
@*/
#include "packed.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, int rows, int cols, int each, int is_log, float alpha, float beta) {
    extern __shared__ uint4 tile[];
    const PackedRows<T, 128> own(tile, rows, cols, each);
    own.load(x), own.wait();
    NO_UNROLL for (int first = threadIdx.x * cols; first < own.count; first += 128 * cols) {
        T* row = own.elements() + first;
        float f[MOST], top = -INFINITY, sum = 0;
        UNROLL for (int j = 0; j < MOST; ++j) {
            if (j >= cols) break;
            f[j] = to_acc(row[j]);
            top = max_nan(top, f[j]);
        }
        const float base = base_of(top);
        UNROLL for (int j = 0; j < MOST; ++j) {
            if (j >= cols) break;
            f[j] -= base;
            const float r = raised_exp<T>(f[j]);
            sum = add_rn(sum, r);
            f[j] = is_log ? f[j] : r;
        }
        const float scale = is_log ? alpha : alpha / sum,
                    shift = is_log ? -alpha * log(lowered<T>(sum)) : 0.f;
        UNROLL for (int j = 0; j < MOST; ++j) {
            if (j >= cols) break;
            float r = fma(f[j], scale, shift);
            if (beta != 0) r += beta * to_acc(y[own.start + first + j]);
            row[j] = from_acc<T>(r);
        }
    }
    own.store(y);
}
