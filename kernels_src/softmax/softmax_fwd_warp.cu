/*@kernel
name   = "softmax_fwd_warp_{T}_{UNITS}"
about  = """Softmax of short rows: 8 or 32 lanes hold a row of up to {UNITS} chunks of 16 bytes in \
            registers. One read, one write."""
T      = ["f32", "f16", "bf16"]
UNITS  = [8, 32, 128, 256]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "T* y", "int64_t x_row", "int64_t y_row", "int rows", "int cols", "int is_log",
          "float alpha", "float beta"]
block  = [128, 1, 1]
grid   = ["ceil_div(rows, 16 if UNITS <= 32 else 4)", 1, 1]
needs  = ["rows >= 1", "1 <= cols", "cols <= UNITS * 16 // sizeof(T)",
          "(x_row - y_row) % (16 // sizeof(T)) == 0"]
problems = ["softmax_fwd 5x{UNITS * 8 // sizeof(T) + 5} {T}",
            "softmax_fwd 5x{UNITS * 16 // sizeof(T) - 3} algorithm=log {T}",
            "softmax_fwd 5x{UNITS * 16 // sizeof(T)} {T}"]
@*/
// A row has WIDTH lanes, each with CHUNKS loads of 16 bytes in flight: 8 lanes and 4 chunks hold 256 columns
// of bf16. Maximum first, then one exponential an element, kept for the result: with the two of an online
// softmax, the special function unit would need half the time that the memory does.
#include "row.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, i64 x_row, i64 y_row, int rows, int cols, int is_log, float alpha, float beta) {
    constexpr int WIDTH = UNITS <= 32 ? 8 : 32, CHUNKS = UNITS / WIDTH;
    using Row = FwdRow<T, WIDTH, CHUNKS>;
    const i64 row = i64(blockIdx.x) * (128 / WIDTH) + threadIdx.x / WIDTH;
    if (row >= rows) cols = 0;  // nothing to load or store, but the shuffles want all lanes
    x += row * x_row, y += row * y_row;
    Row own(threadIdx.x % WIDTH, row * x_row, cols);
    own.load(x);

    float f[CHUNKS][Row::vec], top = -INFINITY, sum = 0;
    UNROLL for (int k = 0; k < CHUNKS; ++k) {
        opened<T>(own.chunk[k]).get(f[k]);
        UNROLL for (int j = 0; j < Row::vec; ++j) top = max_nan(top, f[k][j]);
    }
    UNROLL for (int e = 0; e < Row::edges; ++e) top = max_nan(top, own.edge[e]);
    const float base = base_of(warp_max<WIDTH>(top));

    // From here on an element is exp(x - base), raised, or x - base for the logarithm; the result is
    // element * scale + shift.
    const auto open = [&](float& v) {
        v -= base;
        const float r = raised_exp<T>(v);
        sum = add_rn(sum, r);
        v = is_log ? v : r;
    };
    UNROLL for (int k = 0; k < CHUNKS; ++k)
        UNROLL for (int j = 0; j < Row::vec; ++j) open(f[k][j]);
    UNROLL for (int e = 0; e < Row::edges; ++e) open(own.edge[e]);
    sum = warp_sum<WIDTH>(sum);
    const float scale = is_log ? alpha : alpha / sum, shift = is_log ? -alpha * log(lowered<T>(sum)) : 0.f;

    UNROLL for (int k = 0; k < CHUNKS; ++k) {
        if (!own.has(k)) continue;
        UNROLL for (int j = 0; j < Row::vec; ++j) f[k][j] = fma(f[k][j], scale, shift);
        put_chunk(y + own.at.chunk(own.lane + k * WIDTH), f[k], beta);
    }
    UNROLL for (int e = 0; e < Row::edges; ++e) {
        const int i = own.lane + e * WIDTH;
        if (i < own.at.singles) put_one(y + own.at.single(i), fma(own.edge[e], scale, shift), beta);
    }
}
