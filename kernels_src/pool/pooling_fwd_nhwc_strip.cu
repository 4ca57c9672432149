/*@kernel
name    = "pooling_fwd_nhwc_strip_{T}_{OP}_{K}"
about   = """K x K windows of stride 2, channels innermost: a thread makes two (K 3) or four outputs along w \
             of 16 bytes of channels."""
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
K       = [2, 3]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int items", "int full", "int h", "int w",
           "int p", "int q", "int pad_h", "int pad_w", "FastDiv vectors", "FastDiv strips", "FastDiv rows",
           "int64_t x_n", "int64_t x_h", "int64_t x_w", "int64_t y_n", "int64_t y_h", "int64_t y_w"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
problems = ["""pooling_fwd n2c24h7w11 window={K} pre_pad={K},1 stride=2 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc""",
            """pooling_fwd n2c24h7w12 window={K} stride=2 \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T} nhwc"""]
@*/
// Separable: a column of the strip is reduced over its K rows once, then joins the one or two outputs that
// it belongs to, so every load serves the whole strip. Loads have no branches (cells outside are clamped),
// so many are in flight. full: window size when padding counts in averages, else 0. rows = p.
// Items: image, output row, strip, vector of channels.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(128, 5) void KERNEL(
    const T* x, T* y, float alpha, float beta, int items, int full, int h, int w, int p, int q, int pad_h,
    int pad_w, FastDiv vectors, FastDiv strips, FastDiv rows, i64 x_n, i64 x_h, i64 x_w, i64 y_n, i64 y_h,
    i64 y_w) {
    constexpr int V = 16 / int(sizeof(T)), Strip = K == 3 ? 2 : 4, Columns = (Strip - 1) * 2 + K;
    using State = POOL_STATE(OP)<T, V>;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, strip, row;
    const unsigned n = rows.divmod(strips.divmod(vectors.divmod(item, vector), strip), row);
    const int q0 = strip * Strip, h0 = int(row) * 2 - pad_h, w0 = q0 * 2 - pad_w;
    x += n * x_n + vector * V;
    y += n * y_n + row * y_h + q0 * y_w + vector * V;

    Vec<T, V> v[Columns][K];
    UNROLL for (int j = 0; j < Columns; ++j)
        UNROLL for (int r = 0; r < K; ++r)
            v[j][r] = Vec<T, V>::load_nc(x + inside(h0 + r, h) * x_h + inside(w0 + j, w) * x_w);
    State out[Strip];
    UNROLL for (int j = 0; j < Columns; ++j) {
        State column;
        UNROLL for (int r = 0; r < K; ++r) {
            const bool is_inside = unsigned(w0 + j) < unsigned(w) && unsigned(h0 + r) < unsigned(h);
            if (r) column.add(v[j][r], is_inside);
            else column = State::of(v[j][r], is_inside);
        }
        UNROLL for (int i = 0; i < Strip; ++i) {
            if (j == i * 2) out[i] = column;
            if (j > i * 2 && j < i * 2 + K) out[i].add(column);
        }
    }
    const int cells_h = min(h, h0 + K) - max(0, h0);
    UNROLL for (int i = 0; i < Strip; ++i) {
        if (i && q0 + i >= q) break;
        const int left = w0 + i * 2, cells = max(0, cells_h) * max(0, min(w, left + K) - max(0, left));
        float result[V];
        out[i].finish(result, cells, full);
        put(y + i * y_w, result, alpha, beta);
    }
}
