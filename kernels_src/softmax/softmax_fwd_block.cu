/*@kernel
name   = "softmax_fwd_block_{T}_{UNITS}"
about  = """Softmax, a block a row: up to {UNITS} chunks of 16 bytes in registers, \
            and in shared memory from 4096 on. One read, one write."""
T      = ["f32", "f16", "bf16"]
UNITS  = [512, 1024, 2048, 4096, 8192, 16384]
targets = ["sm_75", "sm_80"]
when   = ["sm >= 80 or UNITS < 8192"]              # sm_75 has 64 KiB of shared memory
params = ["const T* x", "T* y", "int64_t x_row", "int64_t y_row", "int rows", "int cols", "int is_log",
          "float alpha", "float beta"]
block  = ["128 if UNITS <= 1024 else 256 if UNITS <= 4096 else 512 if UNITS <= 8192 else 1024", 1, 1]
grid   = ["rows", 1, 1]
smem   = "UNITS * 8 if UNITS >= 4096 else 0"
needs  = ["rows >= 1", "1 <= cols", "cols <= UNITS * 16 // sizeof(T)",
          "(x_row - y_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_fwd 2x{UNITS * 12 // sizeof(T) + 5} {T}",
            "softmax_fwd 1x{UNITS * 16 // sizeof(T) - 3} algorithm=log {T}"]
@*/
// 1024 threads an SM, 64 registers each, of which 16 or 32 hold the row; the other half of a long row
// is in shared memory. The first pass over the held row overlaps the loads: maximum and sum are carried
// together (online softmax).
#include "row.cuh"

constexpr int THREADS = UNITS <= 1024 ? 128 : UNITS <= 4096 ? 256 : UNITS <= 8192 ? 512 : 1024;
constexpr int HELD = UNITS / THREADS, REGS = HELD < 8 ? HELD : 8;

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void KERNEL(
        const T* x, T* y, i64 x_row, i64 y_row, int rows, int cols, int is_log, float alpha, float beta) {
    extern __shared__ uint4 stash[];
    const i64 row = blockIdx.x;
    FwdRow<T, THREADS, REGS, HELD - REGS> own(threadIdx.x, row * x_row, cols, stash);
    own.load(x + row * x_row);
    auto whole = nothing<float>();
    own.fold_into(whole);
    whole = block_reduce<THREADS>(whole, Merge<T>{});
    own.put(y + row * y_row, SoftmaxOf<T>(whole, alpha, is_log), beta);
}
