// What the normalizations by a neighbourhood share.
//
//   Reach<Most>            windows of Most cells at most (5, 9 or 16): `half` cells on each side will do
//   window_sums<Most, Ahead>(sum, q, n)
//                          sums over windows of n <= Most cells; an even one reaches one further ahead,
//                          or behind
//   Power<T>               s^-power and s^-(power+1) of arrays
//   Place                  where a kept element lies: digits of a position, strides of an operand
//   put                    blend and store
#pragma once
#include "lib/math.cuh"

namespace cydnn {

template <int Most> struct Reach {
    static constexpr int half = Most / 2, base = Most <= 5 ? 1 : Most <= 9 ? 5 : 9;
};

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
        UNROLL for (int step = 1; step < base - 1; step *= 2)
            UNROLL for (int i = 0; i < Count + base - 1 - step; ++i) p[i] += p[i + step];
        UNROLL for (int i = 0; i < Count; ++i) sum[i] = p[i] + q[half + i + middle];
    }
    UNROLL for (int e = 1; e <= Most - base; ++e) {
        const int away = middle + (e + 1) / 2, at = (e % 2 != 0) == Ahead ? half + away : half - away;
        if (n >= base + e) UNROLL for (int i = 0; i < Count; ++i) sum[i] += q[at + i];
    }
}

// 16-bit results take the fast functions (an error of about 2^-20); the others are as exact as their power.
template <class Elem> struct Power {
    using Value = acc_t<Elem>;
    static constexpr bool fast = sizeof(Elem) == 2;
    Value power;                                                    // 0.75 is done with square roots
    static DEVICE float log_of(float s) { return fast ? __log2f(s) : log2f(s); }
    static DEVICE double log_of(double s) { return log2(s); }
    static DEVICE float exp_of(float x) { return fast ? exp2_fast(x) : exp2f(x); }
    static DEVICE double exp_of(double x) { return exp2(x); }
    static DEVICE float root_of(float r) {
        float root = sqrtf(r);
        if constexpr (fast) asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(r));  // PTX ISA §sqrt
        return root;
    }
    static DEVICE double root_of(double r) { return sqrt(r); }

    // s[i] becomes s[i]^-power.
    template <int Count> DEVICE void raise(Value (&s)[Count]) const {
        if (power == Value(0.75)) UNROLL for (int i = 0; i < Count; ++i) {
            const Value r = rsqrt_fast(s[i]);
            s[i] = r * root_of(r);
        } else UNROLL for (int i = 0; i < Count; ++i) s[i] = exp_of(-power * log_of(s[i]));
    }
    // s[i] becomes s[i]^-power, below[i] s[i]^-(power+1).
    template <int Count> DEVICE void raise(Value (&s)[Count], Value (&below)[Count]) const {
        if (power == Value(0.75)) UNROLL for (int i = 0; i < Count; ++i) {
            const Value r = rsqrt_fast(s[i]);
            s[i] = r * root_of(r), below[i] = s[i] * (r * r);
        } else UNROLL for (int i = 0; i < Count; ++i) {
            const Value x = s[i];
            s[i] = exp_of(-power * log_of(x)), below[i] = div_fast(s[i], x);
        }
    }
};

// Position of a kept element, as digits of its dims, innermost first.
struct Place {
    unsigned digit[4];
    DEVICE Place(unsigned position, const Array<FastDiv, 3>& by) {
        UNROLL for (int k = 0; k < 3; ++k) position = by[k].divmod(position, digit[k]);
        digit[3] = position;
    }
    DEVICE i64 offset(const Array<i64, 4>& strides) const {
        i64 sum = 0;
        UNROLL for (int k = 0; k < 4; ++k) sum += digit[k] * strides[k];
        return sum;
    }
};

// y is not read when beta is 0.
template <class T, int V> DEVICE void put(T* y, acc_t<T> (&out)[V], acc_t<T> alpha, acc_t<T> beta) {
    UNROLL for (int i = 0; i < V; ++i) out[i] *= alpha;
    if (beta != 0) {
        const Vec<T, V> old = Vec<T, V>::load(y);
        UNROLL for (int i = 0; i < V; ++i) out[i] += beta * to_acc(old[i]);
    }
    Vec<T, V>::of(out).store(y);
}

}  // namespace cydnn
