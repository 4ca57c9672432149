// What the normalizations by a neighbourhood share (lrn, divisive_norm).
//
//   Reach<Most>            windows of Most cells at most (5, 9 or 16): `half` cells on each side will do
//   window_sums<Most, Ahead>(sum, q, n)
//                          sums over windows of n <= Most cells; an even one reaches one further ahead,
//                          or behind
//   Power<T>               s^-power and s^-1/2 of arrays
//   term_of                lift * dy * x * s^-(power+1)
//   Place                  where a kept element lies: digits of a position, strides of an operand
//   put                    blend and store
//   channel_of             neighbours of a channel
#pragma once
#include "lib/math.cuh"

namespace cydnn {

template <int Most> struct Reach {
    static constexpr int half = Most / 2, base = Most <= 5 ? 1 : Most <= 9 ? 5 : 9;
};

// p[i] becomes the sum of 2 * Last neighbours from p[i] on, as far as they go. (A loop over 1, 2, 4 would not
// be unrolled.)
template <int Step, int Last, int Count, class Value> DEVICE void sum_runs(Value (&p)[Count]) {
    UNROLL for (int i = 0; i <= Count - 2 * Step; ++i) p[i] += p[i + Step];
    if constexpr (Step < Last) sum_runs<2 * Step, Last>(p);
}

// sum[i] of q[half + i] and its neighbours. The windows of `base` cells are summed by doubling; each of the
// others comes when n asks for it, in the order +, -, +, - (or -, +, -, +) away from the middle. Nothing
// is subtracted.
template <int Most, bool Ahead, int Count, class Value>
DEVICE void window_sums(Value (&sum)[Count], const Value (&q)[Count + 2 * Reach<Most>::half], int n) {
    constexpr int half = Reach<Most>::half, base = Reach<Most>::base;
    constexpr int middle = base / 2, first = half - middle;
    if constexpr (base == 1) {
        UNROLL for (int i = 0; i < Count; ++i) sum[i] = q[half + i];
    } else {
        Value p[Count + base - 1];
        UNROLL for (int i = 0; i < Count + base - 1; ++i) p[i] = q[first + i];
        sum_runs<1, base / 2>(p);
        UNROLL for (int i = 0; i < Count; ++i) sum[i] = p[i] + q[half + i + middle];
    }
    const auto add = [&](int e) {
        const int away = middle + (e + 1) / 2, at = (e % 2 != 0) == Ahead ? half + away : half - away;
        UNROLL for (int i = 0; i < Count; ++i) sum[i] += q[at + i];
    };
    if (n == Most) UNROLL for (int e = 1; e <= Most - base; ++e) add(e);   // without a question for each
    else UNROLL for (int e = 1; e < Most - base; ++e)
        if (n >= base + e) add(e);
}

// 16-bit results take approximate logarithms and powers (an error of about 2^-20), which take what is below
// 2^-126 as 0. Square roots are approximate everywhere: PTX ISA says 2^-23 of sqrt, CUDA two places of
// rsqrtf.
template <class Elem> struct Power {
    using Value = acc_t<Elem>;
    static constexpr bool fast = sizeof(Elem) == 2;
    Value power;
    int quarters;                                                   // of powers 0.5, 0.75, 1; of others 0

    static DEVICE float rsqrt_of(float s) {
        float r = s;
        if constexpr (fast) asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
        else r = rsqrtf(s);
        return r;
    }
    static DEVICE float sqrt_of(float r) {                          // of a reciprocal root: never so small
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(r));
        return r;
    }
    static DEVICE float raise_of(float s, float power) {
        if constexpr (!fast) return exp2f(power * log2f(s));
        asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(s));
        s *= power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(s));
        return s;
    }
    static DEVICE double rsqrt_of(double s) { return rsqrt(s); }
    static DEVICE double sqrt_of(double r) { return sqrt(r); }
    static DEVICE double raise_of(double s, double power) { return exp2(power * log2(s)); }

    // s[i] becomes s[i]^-power, root[i] s[i]^-1/2.
    template <int Count> DEVICE void raise(Value (&s)[Count], Value (&root)[Count]) const {
        if (quarters) {
            Value r[Count];
            UNROLL for (int i = 0; i < Count; ++i) r[i] = rsqrt_of(s[i]);
            if (quarters == 3) UNROLL for (int i = 0; i < Count; ++i) s[i] = r[i] * sqrt_of(r[i]);
            else if (quarters == 2) UNROLL for (int i = 0; i < Count; ++i) s[i] = r[i];
            else UNROLL for (int i = 0; i < Count; ++i) s[i] = r[i] * r[i];
            UNROLL for (int i = 0; i < Count; ++i) root[i] = r[i];
        } else UNROLL for (int i = 0; i < Count; ++i) {
            const Value x = s[i];
            s[i] = raise_of(x, -power);
            root[i] = rsqrt_of(x);
        }
    }
    template <int Count> DEVICE void raise(Value (&s)[Count]) const {
        Value unused[Count];
        raise(s, unused);
    }
};

// own: dy * s^-power, root: s^-1/2. The order matters: s^-(power+1) and 1 / s may leave the type's range
// where dx does not. own * x * root is about as large as dx; the term is about dx / x, and so it is lifted.
template <class Value> DEVICE Value term_of(Value own, Value x, Value root, Value lift) {
    return own * x * root * lift * root;
}

// Position of a kept element, as digits of its first `dims` dims, innermost first.
struct Place {
    unsigned digit[4];
    DEVICE Place(unsigned position, const Array<FastDiv, 3>& by, int dims) {
        UNROLL for (int k = 0; k < 4; ++k) digit[k] = 0;
        UNROLL for (int k = 0; k < 3; ++k) {
            if (k + 1 < dims) position = by[k].divmod(position, digit[k]);
            else if (k + 1 == dims) digit[k] = position, position = 0;
        }
        digit[3] = position;
    }
    DEVICE i64 offset(const Array<i64, 4>& strides, int dims) const {
        i64 sum = digit[0] * strides[0];
        UNROLL for (int k = 1; k < 4; ++k)
            if (k < dims) sum += digit[k] * strides[k];
        return sum;
    }
};

// y is not read when beta is 0.
template <class Elem, class Value, int Many>
DEVICE void put(Elem* y, Value (&out)[Many], Value alpha, Value beta) {
    UNROLL for (int i = 0; i < Many; ++i) out[i] *= alpha;
    if (beta != 0) {
        const Vec<Elem, Many> old = Vec<Elem, Many>::load(y);
        UNROLL for (int i = 0; i < Many; ++i) out[i] += beta * to_acc(old[i]);
    }
    Vec<Elem, Many>::of(out).store(y);
}

// Many neighbours of one channel; channels are `step` elements apart; 0 beyond the ends.
template <int Many, class Elem>
DEVICE Vec<Elem, Many> channel_of(const Elem* p, i64 step, int c, int channels) {
    Vec<Elem, Many> v;
    UNROLL for (int j = 0; j < Many; ++j) v[j] = from_acc<Elem>(acc_t<Elem>(0));
    if (unsigned(c) < unsigned(channels)) v = Vec<Elem, Many>::load_nc(p + c * step);
    return v;
}

}  // namespace cydnn
