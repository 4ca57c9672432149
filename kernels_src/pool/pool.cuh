// What the pooling kernels share: how a window is reduced, and who wins its maximum.
//
//   State_max, State_max_nan, State_avg
//                    reduce vectors of V neighbours: start() or of(first), add(…), finish(out, cells, full)
//   inside(i, size)  i clamped to the tensor: loads without a branch, so that many are in flight
//   equals, word, unit, filled, accumulate
//                    vectors of 16 bytes as words and as sums
//   Winner           finds the first largest tap of a window, V at once (16-byte vectors)
//   Geometry, Span   one spatial dim: which cells a window covers, which windows cover a cell
//
// max skips NaN (it starts from NaN, and a number wins), max_nan lets it win; averages propagate it.
// 16-bit maxima are compared in their own type, two at a time: rounding cannot come in.
#pragma once
#include "lib/math.cuh"

#define POOL_JOIN(A, B) A##B
#define POOL_STATE(OP) POOL_JOIN(State_, OP)

namespace cydnn {

template <class T> DEVICE T not_a_number() { return from_acc<T>(acc_t<T>(NAN)); }
template <class T> DEVICE T minus_infinity() { return from_acc<T>(acc_t<T>(-INFINITY)); }

// The larger one. Nan: a NaN wins, else a number wins.
template <bool Nan> DEVICE float larger(float a, float b) { return Nan ? max_nan(a, b) : fmaxf(a, b); }
template <bool Nan> DEVICE double larger(double a, double b) { return Nan ? max_nan(a, b) : fmax(a, b); }
template <bool Nan> DEVICE f16 larger(f16 a, f16 b) { return Nan ? __hmax_nan(a, b) : __hmax(a, b); }
template <bool Nan> DEVICE bf16 larger(bf16 a, bf16 b) { return Nan ? __hmax_nan(a, b) : __hmax(a, b); }
template <bool Nan>
DEVICE __half2 larger(__half2 a, __half2 b) { return Nan ? __hmax2_nan(a, b) : __hmax2(a, b); }
template <bool Nan> DEVICE __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) {
    return Nan ? __hmax2_nan(a, b) : __hmax2(a, b);
}

template <class T> struct Pair { using type = T; };  // what the maximum of neighbours is taken in
template <> struct Pair<f16> { using type = __half2; };
template <> struct Pair<bf16> { using type = __nv_bfloat162; };

// lowest<T>() as a number that the compiler sees.
template <class T> DEVICE acc_t<T> lowest_acc() { return -FLT_MAX; }
template <> DEVICE double lowest_acc<f64>() { return -DBL_MAX; }
template <> DEVICE float lowest_acc<f16>() { return -65504.f; }
template <> DEVICE float lowest_acc<bf16>() { return -0x1.FEp127f; }

template <class T, int V, bool Nan> struct Largest {
    using Values = Vec<T, V>;
    using Unit = typename Pair<T>::type;
    static constexpr bool counts = false;                           // finish asks how many cells a window has
    Values v;
    static DEVICE Largest of(const Values& x, bool) { return {x}; }
    DEVICE void start() {
        UNROLL for (int i = 0; i < V; ++i) v[i] = Nan ? minus_infinity<T>() : not_a_number<T>();
    }
    DEVICE void add(const Values& x) {
        if constexpr (V % 2) UNROLL for (int i = 0; i < V; ++i) v[i] = larger<Nan>(v[i], x[i]);
        else UNROLL for (int i = 0; i < int(V * sizeof(T) / sizeof(Unit)); ++i) {
            Unit& mine = reinterpret_cast<Unit*>(&v)[i];
            mine = larger<Nan>(mine, reinterpret_cast<const Unit*>(&x)[i]);
        }
    }
    DEVICE void add(const Values& x, bool) { add(x); }  // a cell outside was clamped to one inside: no harm
    DEVICE void add(const Largest& other) { add(other.v); }
    DEVICE void add(T x) { v[0] = larger<Nan>(v[0], x); }
    // The cells of a window as finish asks for them behind start(): the maximum of no number is still NaN.
    static DEVICE int asked(int cells) { return Nan ? cells : 1; }
    // Nothing usable in the window: the lowest finite value.
    DEVICE void finish(acc_t<T> (&out)[V], int cells, int) const {
        UNROLL for (int i = 0; i < V; ++i) {
            const acc_t<T> value = to_acc(v[i]);
            out[i] = cells > 0 && (Nan || value == value) ? value : lowest_acc<T>();
        }
    }
};
template <class T, int V> using State_max = Largest<T, V, false>;
template <class T, int V> using State_max_nan = Largest<T, V, true>;

// By what an average of a window divides: its size `full` when padding counts, else (full is 0) its cells
// inside, which are no more.
DEVICE int divisor_of(int full, int cells) { return max(full, cells); }

template <class T, int V> struct State_avg {
    using Values = Vec<T, V>;
    static constexpr bool counts = true;
    acc_t<T> v[V];
    static DEVICE State_avg of(const Values& x, bool is_inside) {
        State_avg out;
        out.start(), out.add(x, is_inside);                         // 0 and -0 are 0
        return out;
    }
    DEVICE void start() { UNROLL for (int i = 0; i < V; ++i) v[i] = 0; }
    DEVICE void add(const Values& x) { UNROLL for (int i = 0; i < V; ++i) v[i] += to_acc(x[i]); }
    DEVICE void add(const Values& x, bool is_inside) {
        UNROLL for (int i = 0; i < V; ++i) v[i] += is_inside ? to_acc(x[i]) : acc_t<T>(0);
    }
    DEVICE void add(const State_avg& other) { UNROLL for (int i = 0; i < V; ++i) v[i] += other.v[i]; }
    DEVICE void add(T x) { v[0] += to_acc(x); }
    static DEVICE int asked(int cells) { return cells; }
    // full: the window's size where padding counts, else 0.
    DEVICE void finish(acc_t<T> (&out)[V], int cells, int full) const {
        const acc_t<T> share = 1 / acc_t<T>(divisor_of(full, max(cells, 1)));
        UNROLL for (int i = 0; i < V; ++i) out[i] = v[i] * share;
    }
};

// Blend and store V results; y is not read when beta is 0.
template <class T, int V> DEVICE void put(T* y, acc_t<T> (&out)[V], acc_t<T> alpha, acc_t<T> beta) {
    UNROLL for (int i = 0; i < V; ++i) out[i] *= alpha;
    if (beta != 0) {
        const Vec<T, V> old = Vec<T, V>::load(y);
        UNROLL for (int i = 0; i < V; ++i) out[i] += beta * to_acc(old[i]);
    }
    Vec<T, V>::of(out).store(y);
}

// The nearest index inside. When a window has any cell inside, each of its cells is clamped to one of those.
DEVICE int inside(int i, int size) { return min(max(i, 0), size - 1); }

struct Span { int first, last; };                                   // [first, last); empty when last <= first
DEVICE int length(Span s) { return s.last - s.first; }

struct Geometry {                                                   // one spatial dim
    int size, out, window, pad;
    FastDiv stride;
    DEVICE int start(int o) const { return o * int(stride.by) - pad; }
    DEVICE Span cells(int o) const { return {max(0, start(o)), min(size, start(o) + window)}; }
    DEVICE int first_window(int i) const {  // the first window that reaches cell i or a later one
        const int gap = i + pad - window + int(stride.by);          // a selection instead makes ptxas spill
        return gap > 0 ? int(stride.div(gap)) : 0;
    }
    DEVICE Span windows(int i) const {                              // those over cell i: none is empty
        return {first_window(i), min(out, int(stride.div(i + pad)) + 1)};
    }
};

// The first largest tap of a window for each of 16 bytes of channels. Masks are words of all ones or all
// zeros for each channel; codes are as wide as T: the tap's number, or all ones for nobody. With best = NaN
// (nothing yet) an unordered comparison takes any number; when NaN wins, it starts from -inf at the first tap
// inside, and nothing replaces a NaN.
DEVICE unsigned beats(float a, float b) { return a <= b ? 0u : ~0u; }
DEVICE unsigned beats(__half2 a, __half2 b) { return __hgtu2_mask(a, b); }
DEVICE unsigned beats(__nv_bfloat162 a, __nv_bfloat162 b) { return __hgtu2_mask(a, b); }
DEVICE unsigned is_number(float a) { return a == a ? ~0u : 0u; }
DEVICE unsigned is_number(__half2 a) { return __heq2_mask(a, a); }
DEVICE unsigned is_number(__nv_bfloat162 a) { return __heq2_mask(a, a); }

template <int Bytes> struct TapCode { using type = unsigned; };
template <> struct TapCode<2> { using type = unsigned short; };

template <class T, bool Nan> struct Winner {
    using Unit = typename Pair<T>::type;
    using Values = Vec<T, 16 / sizeof(T)>;
    static constexpr unsigned both = sizeof(T) == 2 ? 0x10001u : 1u;
    Values best;
    unsigned code[4];
    DEVICE void start(int first_tap) {  // the first tap inside, negative when there is none
        UNROLL for (int i = 0; i < Values::count; ++i)
            best[i] = Nan ? minus_infinity<T>() : not_a_number<T>();
        UNROLL for (int i = 0; i < 4; ++i) code[i] = !Nan || first_tap < 0 ? ~0u : first_tap * both;
    }
    DEVICE void add(const Values& x, int tap) {
        UNROLL for (int i = 0; i < 4; ++i) {
            const Unit now = reinterpret_cast<const Unit*>(&x)[i],
                       then = reinterpret_cast<const Unit*>(&best)[i];
            const unsigned takes = beats(now, then) & is_number(Nan ? then : now);
            unsigned& kept = reinterpret_cast<unsigned*>(&best)[i];
            kept = (reinterpret_cast<const unsigned*>(&x)[i] & takes) | (kept & ~takes);
            code[i] = (tap * both & takes) | (code[i] & ~takes);
        }
    }
};

// Vectors of 16 bytes as four words, one channel each or two.
DEVICE unsigned equals(float a, float b) { return a == b ? ~0u : 0u; }
DEVICE unsigned equals(__half2 a, __half2 b) { return __heq2_mask(a, b); }
DEVICE unsigned equals(__nv_bfloat162 a, __nv_bfloat162 b) { return __heq2_mask(a, b); }
template <class T, int V>
DEVICE unsigned& word(Vec<T, V>& v, int i) { return reinterpret_cast<unsigned*>(&v)[i]; }
template <class T, int V> DEVICE typename Pair<T>::type unit(const Vec<T, V>& v, int i) {
    return reinterpret_cast<const typename Pair<T>::type*>(&v)[i];
}
template <class T, int V> DEVICE Vec<T, V> filled(T value) {
    Vec<T, V> out;
    UNROLL for (int i = 0; i < V; ++i) out[i] = value;
    return out;
}
template <class T, int V> DEVICE void get(const Vec<T, V>& v, float (&out)[V]) { v.get(out); }
// A shift or a mask each, also of words that were computed.
template <int V> DEVICE void get(const Vec<bf16, V>& v, float (&out)[V]) {
    UNROLL for (int i = 0; i < V; ++i) {
        const unsigned pair = reinterpret_cast<const unsigned*>(&v)[i / 2];
        out[i] = __uint_as_float(i % 2 ? pair & 0xFFFF0000u : pair << 16);
    }
}
template <class T, int V> DEVICE void accumulate(float (&sum)[V], const Vec<T, V>& v) {
    float more[V];
    get(v, more);
    UNROLL for (int i = 0; i < V; ++i) sum[i] += more[i];
}

}  // namespace cydnn
