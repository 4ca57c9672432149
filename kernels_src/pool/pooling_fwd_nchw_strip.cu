/*@kernel
name    = "pooling_fwd_nchw_strip_{T}_{OP}_{K}_{PAIR}"
about   = "K x K windows of stride 2, lanes along w: a thread makes four outputs below each other."
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
K       = [2, 3]
PAIR    = [0, 1]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int items", "int full", "int h", "int w",
           "int p", "int q", "int pad_h", "int pad_w", "FastDiv columns", "FastDiv strips",
           "FastDiv channels", "int64_t x_n", "int64_t x_c", "int64_t x_h", "int64_t y_n", "int64_t y_c",
           "int64_t y_h"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["""pooling_fwd n2c3h9w{'8' if PAIR else '7'} window={K} stride=2 \
               pre_pad={K + 2},{0 if K == 2 and PAIR else 1} \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n2c3h19w{'8' if PAIR else '7'} window={K} stride=2 \
               pre_pad={0 if K == 2 and PAIR else 1} mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}"""]
@*/
// Separable: a row is reduced over its K cells, then joins the one or two outputs it belongs to. Loads have
// no branches (cells outside are clamped), so all rows are in flight; what neighbouring lanes load twice
// comes from L1. PAIR: cells 2q and 2q+1 are one aligned load (w and the strides even; pad_w 0, or 1 when
// K is 3), the third cell of K 3 is 2q-1 or 2q+2.
// Items: image, channel, strip, output column (columns = q).
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* y, float alpha, float beta, int items, int full, int h, int w, int p, int q, int pad_h,
    int pad_w, FastDiv columns, FastDiv strips, FastDiv channels, i64 x_n, i64 x_c, i64 x_h, i64 y_n, i64 y_c,
    i64 y_h) {
    constexpr int Strip = 4, Rows = (Strip - 1) * 2 + K;
    using State = POOL_STATE(OP)<T, 1>;
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned column, strip, c;
    const unsigned n = channels.divmod(strips.divmod(columns.divmod(item, column), strip), c);
    const int p0 = strip * Strip, h0 = p0 * 2 - pad_h, w0 = int(column) * 2 - pad_w;
    x += n * x_n + c * x_c;
    y += n * y_n + c * y_c + p0 * y_h + column;

    // Cell s of the row: its column is w0 + s, or for a PAIR: 2q, 2q+1, then the side.
    const int pair = 2 * column, side = pad_w ? pair - 1 : pair + 2;
    T v[Rows][K];
    UNROLL for (int r = 0; r < Rows; ++r) {
        const T* line = x + inside(h0 + r, h) * x_h;
        if constexpr (PAIR) {
            const Vec<T, 2> both = Vec<T, 2>::load_nc(line + pair);
            v[r][0] = both[0], v[r][1] = both[1];
            if constexpr (K == 3) v[r][2] = Vec<T, 1>::load_nc(line + inside(side, w))[0];
        } else {
            UNROLL for (int s = 0; s < K; ++s) v[r][s] = Vec<T, 1>::load_nc(line + inside(w0 + s, w))[0];
        }
    }
    State out[Strip];
    UNROLL for (int r = 0; r < Rows; ++r) {
        State row;
        UNROLL for (int s = 0; s < K; ++s) {
            const int at = PAIR ? (s == 2 ? side : pair + s) : w0 + s;
            const bool is_inside = unsigned(h0 + r) < unsigned(h) && unsigned(at) < unsigned(w);
            if (s) row.add(Vec<T, 1>{v[r][s]}, is_inside);
            else row = State::of(Vec<T, 1>{v[r][s]}, is_inside);
        }
        UNROLL for (int i = 0; i < Strip; ++i) {
            if (r == i * 2) out[i] = row;
            if (r > i * 2 && r < i * 2 + K) out[i].add(row);
        }
    }
    const int cells_w = min(w, w0 + K) - max(0, w0);
    UNROLL for (int i = 0; i < Strip; ++i) {
        if (i && p0 + i >= p) break;
        const int top = h0 + i * 2, cells = max(0, cells_w) * max(0, min(h, top + K) - max(0, top));
        float result[1];
        out[i].finish(result, cells, full);
        put(y + i * y_h, result, alpha, beta);
    }
}
