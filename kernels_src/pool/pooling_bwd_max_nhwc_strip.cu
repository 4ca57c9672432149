/*@kernel
name    = "pooling_bwd_max_nhwc_strip_{T}_{NAN_WINS}_{K}"
about   = "dx of max pooling, K x K windows of stride 2, channels innermost: a thread walks down two columns of dx, 16 bytes of channels."
T       = ["f32", "f16", "bf16"]
NAN_WINS = [0, 1]
K       = [2, 3]
targets = ["sm_80", "sm_90"]
params  = ["const T* x", "const T* dy", "T* dx", "float alpha", "float beta", "int items", "int h", "int w", "int p", "int q",
           "int pad_h", "int pad_w", "int height", "FastDiv vectors", "FastDiv pairs", "FastDiv strips",
           "int64_t x_n", "int64_t x_h", "int64_t x_w", "int64_t dy_n", "int64_t dy_h", "int64_t dy_w", "int64_t dx_n", "int64_t dx_h", "int64_t dx_w"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
problems = ["pooling_bwd n2c24h19w7 window={K} pre_pad={K // 3} stride=2 mode=max nan={'propagate' if NAN_WINS else 'ignore'} {T} nhwc"]
@*/
// Pair j of columns is cells 2j - pad and the next one; rows alike. The windows over it are j and, for K 3, j - 1 by its last
// column; the thread reduces both, so that nothing is exchanged, and what row 2 of a window gets waits one step in registers.
// A step is two rows of dx: 2 rows x 5 columns of x and two dy (K 3), all in flight. The winner of a window needs no
// tap numbers: its maximum m is found, then dy goes to the first tap that equals m, as masks of two channels a word.
// sm_90: bf16 compares in pairs (set.eq.bf16x2); sm_80 does it one by one. Items: image, strip of `height` steps, pair, vector of channels.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(128, K == 2 ? 8 : 4) void KERNEL(
    const T* x, const T* dy, T* dx, float alpha, float beta, int items, int h, int w, int p, int q, int pad_h, int pad_w,
    int height, FastDiv vectors, FastDiv pairs, FastDiv strips, i64 x_n, i64 x_h, i64 x_w, i64 dy_n, i64 dy_h, i64 dy_w,
    i64 dx_n, i64 dx_h, i64 dx_w) {
    constexpr int V = 16 / int(sizeof(T)), Windows = K - 1, Columns = 2 * (Windows - 1) + K, Kept = K - 2;
    using Values = Vec<T, V>;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, pair, strip;
    const unsigned n = strips.divmod(pairs.divmod(vectors.divmod(item, vector), pair), strip);
    const int j0 = int(pair) - Kept, w0 = 2 * j0 - pad_w;             // the first window and its first column
    const int i0 = strip * height, i1 = min(i0 + height, (h + pad_h + 1) / 2);
    x += n * x_n + vector * V + w0 * x_w, dy += n * dy_n + vector * V + j0 * dy_w;
    dx += n * dx_n + vector * V + (w0 + 2 * Kept) * dx_w;

    // A cell outside never wins: NaN when numbers win, else -inf, which maxima() masks.
    const auto fetch = [&](int row, int c) {
        Values v = filled<T, V>(NAN_WINS ? minus_infinity<T>() : not_a_number<T>());
        if (unsigned(row) < unsigned(h) && unsigned(w0 + c) < unsigned(w)) v = Values::load_nc(x + row * x_h + c * x_w);
        return v;
    };
    int i = max(i0 - Kept, 0);                                        // one step ahead of the strip, for its first row
    Values v[K][Columns], old[Windows][K], share[Windows][K][K];      // old: what the windows above give to this step's first row
    UNROLL for (int k = 0; k < Windows; ++k) UNROLL for (int s = 0; s < K; ++s) old[k][s] = filled<T, V>(T(0.f));
    if (Kept) UNROLL for (int c = 0; c < Columns; ++c) v[0][c] = fetch(2 * i - pad_h, c);
    NO_UNROLL for (; i < i1; ++i) {
        const int top = 2 * i - pad_h;
        Values given[Windows];
        UNROLL for (int r = Kept; r < K; ++r) UNROLL for (int c = 0; c < Columns; ++c) v[r][c] = fetch(top + r, c);
        UNROLL for (int k = 0; k < Windows; ++k) {
            given[k] = filled<T, V>(T(0.f));
            if (i < p && unsigned(j0 + k) < unsigned(q)) given[k] = Values::load_nc(dy + i * dy_h + k * dy_w);
        }
        UNROLL for (int u = 0; u < 4; ++u) UNROLL for (int k = 0; k < Windows; ++k) {
            auto most = unit(v[0][2 * k], u);
            UNROLL for (int t = 1; t < K * K; ++t) most = larger<bool(NAN_WINS)>(most, unit(v[t / K][2 * k + t % K], u));
            unsigned left = word(given[k], u);                        // what no tap has taken yet
            UNROLL for (int t = 0; t < K * K; ++t) {
                const auto now = unit(v[t / K][2 * k + t % K], u);
                unsigned takes = equals(now, most);
                if (NAN_WINS) {
                    const bool is_inside = unsigned(top + t / K) < unsigned(h) && unsigned(w0 + 2 * k + t % K) < unsigned(w);
                    takes = is_inside ? takes | ~is_number(now) : 0u;
                }
                word(share[k][t / K][t % K], u) = left & takes;
                left &= ~takes;
            }
        }
        UNROLL for (int r = 0; r < 2; ++r) UNROLL for (int c = 0; c < 2; ++c) {
            float sum[V] = {};                                        // windows in row-major order
            UNROLL for (int k = 0; k < Windows; ++k)
                if (const int s = 2 * (Kept - k) + c; Kept && r == 0 && s < K) accumulate(sum, old[k][s]);
            UNROLL for (int k = 0; k < Windows; ++k)
                if (const int s = 2 * (Kept - k) + c; s < K) accumulate(sum, share[k][r][s]);
            const int column = w0 + 2 * Kept + c;
            if (i >= i0 && unsigned(top + r) < unsigned(h) && unsigned(column) < unsigned(w))
                put(dx + (top + r) * dx_h + c * dx_w, sum, alpha, beta);
        }
        if (Kept) {
            UNROLL for (int c = 0; c < Columns; ++c) v[0][c] = v[K - 1][c];
            UNROLL for (int k = 0; k < Windows; ++k) UNROLL for (int s = 0; s < K; ++s) old[k][s] = share[k][K - 1][s];
        }
    }
}
