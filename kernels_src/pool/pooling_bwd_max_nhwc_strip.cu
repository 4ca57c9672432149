/*@kernel
name    = "pooling_bwd_max_nhwc_strip_{T}_{NAN_WINS}_{K}"
about   = """dx of max pooling, K x K windows of stride 2, channels innermost: \
             a thread walks down some columns of dx, the winners in registers."""
T       = ["f32", "f16", "bf16"]
NAN_WINS = [0, 1]
K       = [2, 3]
targets = ["sm_80", "sm_90"]
params  = ["const T* x", "const T* dy", "T* dx", "float alpha", "float beta", "int items", "int h", "int w",
           "int p", "int q", "int pad_h", "int pad_w", "int height", "FastDiv vectors", "FastDiv groups",
           "FastDiv strips", "int64_t x_n", "int x_h", "int x_w", "int64_t dy_n", "int dy_h", "int dy_w",
           "int64_t dx_n", "int dx_h", "int dx_w"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
problems = ["""pooling_bwd y=2x24x10x9:{T} dy=2x24x10x9:{T}@2976,1,296,32 x=2x24x19x17:{T}@10504,1,552,32 \
               dx=2x24x19x17:{T}@13248,1,696,40 window={K} pre_pad=1 stride=2 mode=max \
               nan={'propagate' if NAN_WINS else 'ignore'}""",
            """pooling_bwd n1c16h6w10 window={K} pre_pad={K},0 stride=2 mode=max \
               nan={'propagate' if NAN_WINS else 'ignore'} {T} nhwc"""]
@*/
// Pair j of columns is cells 2j - pad and the next one; rows alike. The windows over it are j and, for
// K 3, j - 1 by its last column. A thread owns two neighbouring pairs and 8 bytes of channels, so it finds
// three winners for two; a step is two rows of dx. The winner of a window is found row by row: the largest of
// each row and masks of who equals it (a row that two windows share is reduced once), then the largest row.
// dy goes to the first that equals, so no tap is ever numbered.
// sm_90: bf16 compares in pairs (set.eq.bf16x2); sm_80 does it one by one, which takes registers.
// Items: image, strip of `height` steps, group (two pairs), vector of channels.
// H200, n256c64h112w112, 3 x 3, bf16: 476 us with 4 words and 1 pair, 260 with 2 and 2, 270 with 1 and 4.
#include "pool.cuh"

constexpr int WORDS = 2;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int BLOCKS = K == 2 ? 6 : 3;
#else
constexpr int BLOCKS = K == 2 ? 6 : 4;
#endif

template <class Unit, int Windows> struct Line {  // one row of cells, seen by the windows over it
    Unit most[Windows][WORDS];
    unsigned first[Windows][WORDS], second[Windows][WORDS];  // masks: column 0 (1) equals its row's largest
};

// 32-bit strides in bytes: one IMAD.WIDE a pointer.
template <class E> DEVICE E* moved(E* p, int steps, int stride) {
    return (E*)((const char*)p + i64(steps) * stride);
}

template <bool Is> struct Claim { static constexpr bool holds = Is; };

extern "C" __global__ __launch_bounds__(128, BLOCKS) void KERNEL(
    const T* x, const T* dy, T* dx, float alpha, float beta, int items, int h, int w, int p, int q, int pad_h,
    int pad_w, int height, FastDiv vectors, FastDiv groups, FastDiv strips, i64 x_n, int x_h, int x_w,
    i64 dy_n, int dy_h, int dy_w, i64 dx_n, int dx_h, int dx_w) {
    constexpr int V = 4 * WORDS / int(sizeof(T)), Pairs = 4 / WORDS, Kept = K - 2, Windows = Pairs + Kept,
                  Columns = 2 * (Windows - 1) + K;
    using Values = Vec<T, V>;
    using Unit = typename Pair<T>::type;
    using Cells = Line<Unit, Windows>;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, group, strip;
    const unsigned n = strips.divmod(groups.divmod(vectors.divmod(item, vector), group), strip);
    const int j0 = int(group) * Pairs - Kept, w0 = 2 * j0 - pad_w;    // the first window and its first column
    const int i0 = strip * height, i1 = min(i0 + height, (h + pad_h + 1) / 2);
    x_h *= sizeof(T), x_w *= sizeof(T), dy_h *= sizeof(T), dy_w *= sizeof(T), dx_h *= sizeof(T),
    dx_w *= sizeof(T);
    x += n * x_n + vector * V, dy += n * dy_n + vector * V, dx += n * dx_n + vector * V;

    // Cells outside are loaded from inside, so the largest stays what it is, and never win: when numbers win
    // they are made NaN, else `same` masks them.
    const bool is_cut = w0 < 0 || w0 + Columns > w;
    int columns[Columns];
    UNROLL for (int c = 0; c < Columns; ++c) columns[c] = inside(w0 + c, w);
    const auto fetch = [&](int row, Values (&v)[Columns]) {
        const T* from = moved(x, inside(row, h), x_h);
        UNROLL for (int c = 0; c < Columns; ++c) v[c] = Values::load_nc(moved(from, columns[c], x_w));
    };
    const auto clear = [&](int row, Values (&v)[Columns]) {
        const bool is_out = unsigned(row) >= unsigned(h);
        if (!NAN_WINS && (is_out || is_cut)) UNROLL for (int c = 0; c < Columns; ++c)
            if (is_out || unsigned(w0 + c) >= unsigned(w)) v[c] = filled<T, V>(not_a_number<T>());
    };
    const auto same = [&](Unit value, Unit most, bool is_inside) {
        if (NAN_WINS) return is_inside ? equals(value, most) | ~is_number(value) : 0u;
        return equals(value, most);
    };
    const auto reduced = [&](const Values (&v)[Columns]) {
        Cells line;
        UNROLL for (int k = 0; k < Windows; ++k) UNROLL for (int u = 0; u < WORDS; ++u) {
            const Unit a = unit(v[2 * k], u), b = unit(v[2 * k + 1], u);
            const Unit most = K == 3 ? larger<bool(NAN_WINS)>(larger<bool(NAN_WINS)>(a, b),
                                                              unit(v[2 * k + K - 1], u))
                                     : larger<bool(NAN_WINS)>(a, b);
            line.most[k][u] = most;
            line.first[k][u] = same(a, most, unsigned(w0 + 2 * k) < unsigned(w));
            line.second[k][u] = same(b, most, unsigned(w0 + 2 * k + 1) < unsigned(w));
        }
        return line;
    };

    const bool is_plain = alpha == 1 && beta == 0 && !is_cut;
    int i = Kept ? max(i0 - Kept, 0) : i0;          // one step ahead of the strip, for its first row
    Cells lines[K];                                 // of the windows of this step
    // part: dy by the row that wins it; late: to row 0, from the windows above.
    unsigned part[K][Windows][WORDS], late[Windows][WORDS] = {};
    if (Kept) {
        Values v[Columns];
        fetch(2 * i - pad_h, v), clear(2 * i - pad_h, v);
        lines[0] = reduced(v);
    }
    NO_UNROLL for (; i < i1; ++i) {
        const int top = 2 * i - pad_h;
        Values v[2][Columns], given[Windows];
        UNROLL for (int r = 0; r < 2; ++r) fetch(top + Kept + r, v[r]);
        UNROLL for (int k = 0; k < Windows; ++k) {
            given[k] = filled<T, V>(T(0.f));
            if (i < p && unsigned(j0 + k) < unsigned(q))
                given[k] = Values::load_nc(moved(moved(dy, i, dy_h), j0 + k, dy_w));
        }
        UNROLL for (int r = 0; r < 2; ++r) clear(top + Kept + r, v[r]), lines[Kept + r] = reduced(v[r]);
        UNROLL for (int k = 0; k < Windows; ++k) UNROLL for (int u = 0; u < WORDS; ++u) {
            Unit most = lines[0].most[k][u];
            UNROLL for (int r = 1; r < K; ++r) most = larger<bool(NAN_WINS)>(most, lines[r].most[k][u]);
            unsigned left = word(given[k], u);                        // what no row has taken yet
            UNROLL for (int r = 0; r < K; ++r) {
                const unsigned takes = same(lines[r].most[k][u], most, unsigned(top + r) < unsigned(h));
                part[r][k][u] = left & takes;
                left &= ~takes;
            }
        }
        // What column s of window k gets of the words that its row won.
        const auto share = [&](int r, int k, int s, int u, unsigned won) {
            const unsigned first = lines[r].first[k][u], second = K == 3 ? lines[r].second[k][u] : ~0u;
            return s == 0 ? won & first : s == 1 ? won & ~first & second : won & ~first & ~second;
        };
        const auto give = [&](auto claim) {
            constexpr bool plain = decltype(claim)::holds;
            UNROLL for (int r = 0; r < 2; ++r) UNROLL for (int c = 0; c < 2 * Pairs; ++c) {
                Values terms[4];
                int count = 0;
                UNROLL for (int k = 0; k < Windows; ++k) {
                    const int s = c + 2 * (Kept - k);
                    if (s < 0 || s >= K) continue;
                    if (Kept && r == 0) {
                        UNROLL for (int u = 0; u < WORDS; ++u)
                            word(terms[count], u) = share(r, k, s, u, late[k][u]);
                        ++count;
                    }
                    UNROLL for (int u = 0; u < WORDS; ++u)
                        word(terms[count], u) = share(r, k, s, u, part[r][k][u]);
                    ++count;
                }
                const int column = w0 + 2 * Kept + c;
                T* out = moved(moved(dx, top + r, dx_h), column, dx_w);
                if (plain && count <= 2) {  // one addition of stored values rounds once
                    if (count == 2) UNROLL for (int u = 0; u < WORDS; ++u)
                        reinterpret_cast<Unit*>(terms)[u] = unit(terms[0], u) + unit(terms[1], u);
                    terms[0].store(out);
                } else if (plain || unsigned(top + r) < unsigned(h) && unsigned(column) < unsigned(w)) {
                    float sum[V];
                    get(terms[0], sum);
                    UNROLL for (int t = 1; t < count; ++t) accumulate(sum, terms[t]);
                    put(out, sum, plain ? 1.f : alpha, plain ? 0.f : beta);
                }
            }
        };
        if (i >= i0) {
            if (is_plain && top >= 0 && top + 1 < h) give(Claim<true>{});
            else give(Claim<false>{});
        }
        if (Kept) {
            lines[0] = lines[K - 1];
            UNROLL for (int k = 0; k < Windows; ++k)
                UNROLL for (int u = 0; u < WORDS; ++u) late[k][u] = part[K - 1][k][u];
        }
    }
}
