/*@kernel
name   = "softmax_bwd_block_{T}_{UNITS}"
about  = """Softmax gradient, a block a row: up to {UNITS} chunks of y and of dy in registers, \
            and in shared memory from 4096 on. One read, one write."""
T      = ["f32", "f16", "bf16"]
UNITS  = [512, 1024, 2048, 4096, 8192]
targets = ["sm_75", "sm_80"]
when   = ["sm >= 80 or UNITS < 4096"]              # sm_75 has 64 KiB of shared memory
params = ["const T* y", "const T* dy", "T* dx", "int64_t y_row", "int64_t dy_row", "int64_t dx_row",
          "int rows", "int cols", "int is_log", "float alpha", "float beta"]
block  = ["128 if UNITS <= 512 else 256 if UNITS <= 1024 else 512 if UNITS <= 4096 else 1024", 1, 1]
grid   = ["rows", 1, 1]
smem   = "UNITS * 16 if UNITS >= 4096 else 0"
needs  = ["rows >= 1", "1 <= cols", "cols <= UNITS * 16 // sizeof(T)",
          "(y_row - dx_row) % (16 // sizeof(T)) == 0", "(dy_row - dx_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_bwd 2x{UNITS * 12 // sizeof(T) + 5} {T}",
            "softmax_bwd 1x{UNITS * 16 // sizeof(T) - 3} algorithm=log {T}"]
@*/
// 1024 threads an SM, 64 registers each, of which 32 hold 4 chunks of y and of dy; 4 more of each
// are in shared memory.
#include "row_bwd.cuh"

constexpr int THREADS = UNITS <= 512 ? 128 : UNITS <= 1024 ? 256 : UNITS <= 4096 ? 512 : 1024;
constexpr int HELD = UNITS / THREADS;

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void KERNEL(
        const T* y, const T* dy, T* dx, i64 y_row, i64 dy_row, i64 dx_row, int rows, int cols, int is_log,
        float alpha, float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x;
    BwdRow<T, THREADS, 4, HELD - 4> own(threadIdx.x, row * y_row, cols, stash);
    own.load(y + row * y_row, dy + row * dy_row);
    const float sum = block_sum<THREADS>(own.sum(is_log));
    own.put(dx + row * dx_row, GradientOf<T>{sum, alpha, bool(is_log)}, beta);
}
