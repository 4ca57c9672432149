/*@kernel
name   = "softmax_bwd_packed_{T}_{MOST}"
about  = """Softmax gradient of rows of up to {MOST} columns without gaps: a thread a row, tiles of rows \
            pass through shared memory. One read, one write."""
T      = ["f32", "f16", "bf16"]
MOST   = [16, 32, 64]
targets = ["sm_75", "sm_80"]
params = ["const T* y", "const T* dy", "T* dx", "int rows", "int cols", "int each", "int is_log",
          "float alpha", "float beta"]
block  = [128, 1, 1]
grid   = ["ceil_div(rows, 128 * each)", 1, 1]
smem   = "256 * each * cols * sizeof(T)"
needs  = ["rows >= 1", "1 <= cols", "cols <= MOST", "each >= 1"]
problems = ["softmax_bwd 301x{MOST - 1} {T}", "softmax_bwd 129x{MOST // 2 + 1} {T} algorithm=log",
            "softmax_bwd 33x{MOST} {T}", "softmax_bwd 33x{MOST} {T} algorithm=log"]
@*/
// The tile of y, behind it that of dy, which becomes that of dx.
#include "packed.cuh"

using Rows = PackedRows<T, 128, MOST * sizeof(T) < 64 ? 1 : 4>;

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* y, const T* dy, T* dx, int rows, int cols, int each, int is_log, float alpha, float beta) {
    extern __shared__ uint4 tile[];
    const Rows given(tile, rows, cols, each),
               own(tile + 8 * each * cols * int(sizeof(T)), rows, cols, each);
    given.load(y), own.load(dy), own.wait();
    NO_UNROLL for (int first = threadIdx.x * cols; first < own.count; first += 128 * cols) {
        const T* from = given.elements() + first;
        T* row = own.elements() + first;
        float a[MOST], b[MOST], sum = 0;
        UNROLL for (int j = 0; j < MOST; ++j) {
            if (j >= cols) break;
            a[j] = to_acc(from[j]), b[j] = to_acc(row[j]);
            sum += GradientOf<T>::share(a[j], b[j], is_log);
        }
        const GradientOf<T> of = {sum, alpha, bool(is_log)};
        UNROLL for (int j = 0; j < MOST; ++j) {
            if (j >= cols) break;
            float r = of(a[j], b[j]);
            if (beta != 0) r += beta * to_acc(dx[own.start + first + j]);
            row[j] = from_acc<T>(r);
        }
    }
    own.store(dx);
}
