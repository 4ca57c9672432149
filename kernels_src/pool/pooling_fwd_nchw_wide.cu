/*@kernel
name    = "pooling_fwd_nchw_wide_{T}_{OP}_{K}"
about   = """K x K windows of stride 2, rows of 16-byte vectors: \
             a thread makes what lies over one vector of a row, two output rows."""
T       = ["f32", "f16", "bf16"]
OP      = ["max", "max_nan", "avg"]
K       = [2, 3]
targets = ["sm_80"]
params  = ["const T* x", "T* y", "float alpha", "float beta", "int items", "int full", "int h", "int w",
           "int p", "int q", "int pad_h", "int pad_w", "int is_even", "FastDiv vectors", "FastDiv strips",
           "FastDiv channels", "int64_t x_n", "int64_t x_c", "int64_t x_h", "int64_t y_n", "int64_t y_c",
           "int64_t y_h"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
needs   = ["0 <= pad_w <= K - 2"]
problems = ["""pooling_fwd n2c3h9w16 window={K} stride=2 pre_pad={K + 2},{K - 2} \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n2c3h12w16 window={K} stride=2 pre_pad={K - 2} \
               mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd n2c3h12w32 window={K} stride=2 \
               mode={'avg_exclude_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'} {T}""",
            """pooling_fwd x=2x3x12x16:{T}@896,296,24,1 y=2x3x6x8:{T}@183,61,9,1 window={K} stride=2 \
               pre_pad={K - 2} mode={'avg_include_padding' if OP == 'avg' else 'max'} \
               nan={'propagate' if OP == 'max_nan' else 'ignore'}"""]
@*/
// Columns first, two neighbours at once, then V / 2 outputs side by side: cells 2o and 2o + 1 of the
// vector and, for K 3, the one before (pad_w 1) or behind (pad_w 0), which at the vector's end is the
// side: a cell of the next thread, from L1. Cells outside are clamped. is_even: rows of y are whole vectors
// of V / 2. Items: image, channel, strip, vector of the row.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, float alpha, float beta, int items, int full, int h, int w, int p, int q, int pad_h,
    int pad_w, int is_even, FastDiv vectors, FastDiv strips, FastDiv channels, i64 x_n, i64 x_c, i64 x_h,
    i64 y_n, i64 y_c, i64 y_h) {
    constexpr int V = 16 / int(sizeof(T)), Outs = V / 2, Strip = 2, Rows = (Strip - 1) * 2 + K;
    using One = POOL_STATE(OP)<T, 1>;
    using Wide = POOL_STATE(OP)<T, V>;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, strip, c;
    const unsigned n = channels.divmod(strips.divmod(vectors.divmod(item, vector), strip), c);
    const int p0 = strip * Strip, h0 = p0 * 2 - pad_h, w0 = vector * V, q0 = vector * Outs;
    const int side = pad_w ? w0 - 1 : w0 + V;
    const bool has_side = unsigned(side) < unsigned(w);
    x += n * x_n + c * x_c, y += n * y_n + c * y_c + q0;

    Vec<T, V> v[Rows];
    Vec<T, 1> beside[Rows];
    UNROLL for (int r = 0; r < Rows; ++r) {
        const T* line = x + inside(h0 + r, h) * x_h;
        v[r] = Vec<T, V>::load_nc(line + w0);
        if (K == 3) beside[r] = Vec<T, 1>::load_nc(line + inside(side, w));
    }
    UNROLL for (int i = 0; i < Strip; ++i) {
        if (i && p0 + i >= p) break;
        Wide column;
        One edge;
        UNROLL for (int r = 2 * i; r < 2 * i + K; ++r) {
            const bool is_inside = unsigned(h0 + r) < unsigned(h);
            if (r > 2 * i) column.add(v[r], is_inside);
            else column = Wide::of(v[r], is_inside);
            if (K == 3 && r > 2 * i) edge.add(beside[r], is_inside && has_side);
            else if (K == 3) edge = One::of(beside[r], is_inside && has_side);
        }
        const int top = h0 + i * 2, cells_h = max(0, min(h, top + K) - max(0, top));
        float out[Outs], single[1];
        UNROLL for (int o = 0; o < Outs; ++o) {
            One sum, other;
            sum.v[0] = column.v[2 * o], other.v[0] = column.v[2 * o + 1];
            sum.add(other);
            if (K == 3) {
                One before = edge, behind = edge;
                if (o > 0) before.v[0] = column.v[max(2 * o - 1, 0)];
                if (o + 1 < Outs) behind.v[0] = column.v[min(2 * o + 2, V - 1)];
                sum.add(pad_w ? before : behind);
            }
            const int left = w0 + 2 * o - pad_w, cells_w = One::counts ? min(w, left + K) - max(0, left) : 1;
            sum.finish(single, cells_h * cells_w, full);
            out[o] = single[0];
        }
        T* to = y + (p0 + i) * y_h;
        if (is_even) {
            put(to, out, alpha, beta);
        } else {
            UNROLL for (int o = 0; o < Outs; ++o) {
                single[0] = out[o];
                // The row may end one output early.
                if (o + 1 < Outs || q0 + o < q) put(to + o, single, alpha, beta);
            }
        }
    }
}
