// Sums over windows of channels, and what kernels that walk the channels move.
//
//   window_sums_of<Most, Ahead, Squares>(sum, v, n)
//                          sums of v, or of its squares, over windows of LEAST<Most> <= n <= Most cells; an
//                          even one reaches one further ahead, or behind
//   gradient_terms         dy * s^-power and lift * dy * x * s^-(power+1)
//   locate                 where a kept element lies in each of some operands
//   blend_into             blend of some results; nothing is done, and y is not read, when alpha is 1 and
//                          beta 0
//   whole_pointer          a pointer that the compiler does not take apart
//   channels_of, next_channels, put_channels
//                          neighbours of some channels
#pragma once
#include "tile/local_norm.cuh"

namespace cydnn {

template <int Most> constexpr int LEAST = Most <= 5 ? 1 : Most <= 9 ? 6 : 10;

template <bool Squares, class Value> DEVICE Value plus(Value sum, Value v) {
    if constexpr (Squares) return fma(v, v, sum);
    else return sum + v;
}

// sum[g] holds what the windows of sum[g] … sum[g + Share - 1] share, v[first + g + Share - 1] …
// v[first + g + n - 1]; the two halves of them get what each half shares.
template <int Share, bool Squares, int Count, int Size, class Value>
DEVICE void share_out(Value (&sum)[Count], const Value (&v)[Size], int first, int n) {
    if constexpr (Share > 1) {
        constexpr int half = Share / 2;
        UNROLL for (int g = 0; g < Count; g += Share) {
            sum[g + half] = sum[g];
            UNROLL for (int k = 0; k < half; ++k) {
                sum[g] = plus<Squares>(sum[g], v[first + g + Share - 2 - k]);
                sum[g + half] = plus<Squares>(sum[g + half], v[first + g + n + k]);
            }
        }
        share_out<half, Squares>(sum, v, first, n);
    }
}

// Nothing is subtracted: what is infinite or NaN is seen in its windows only.
// n is opaque: the compiler makes neither a table of branches, nor copies of what follows for each value.
template <int Most, bool Ahead, bool Squares, int N = Most, int Count, class Value>
DEVICE void window_sums_of(Value (&sum)[Count], const Value (&v)[Count + 2 * Reach<Most>::half], int n) {
    if constexpr (N > LEAST<Most>) {
        asm("" : "+r"(n));
        if (n != N) return window_sums_of<Most, Ahead, Squares, N - 1>(sum, v, n);
    }
    constexpr int first = Reach<Most>::half - N / 2 + (Ahead && N % 2 == 0), lowest = Count & -Count;
    constexpr int most = N >= 8 ? 8 : N >= 4 ? 4 : N >= 2 ? 2 : 1, share = lowest < most ? lowest : most;
    UNROLL for (int g = 0; g < Count; g += share) {
        const Value x = v[first + g + share - 1];
        sum[g] = Squares ? x * x : x;
        UNROLL for (int k = share; k < N; ++k) sum[g] = plus<Squares>(sum[g], v[first + g + k]);
    }
    share_out<share, Squares>(sum, v, first, N);
}

// Of what the gradient is made: s[i] becomes d[i] * s[i]^-power, t[i] lift * d[i] * x(i) * s[i]^-(power+1).
template <class Elem, class Value, int Count, class Read>
DEVICE void gradient_terms(const Power<Elem>& of, Value (&s)[Count], Value (&t)[Count],
                           const Value (&d)[Count], Read x, Value lift) {
    of.raise(s, t);
    UNROLL for (int i = 0; i < Count; ++i) s[i] *= d[i], t[i] = term_of(s[i], x(i), t[i], lift);
}

template <class... Strides>
DEVICE void locate(i64 (&at)[sizeof...(Strides)], unsigned position, const Array<FastDiv, 3>& digits,
                   int dims, const Strides&... strides) {
    int k = 0;
    if (dims == 1) {
        ((at[k++] = position * strides[0]), ...);
    } else {
        const Place place(position, digits, dims);
        ((at[k++] = place.offset(strides, dims)), ...);
    }
}

template <class Elem, class Value, int Many>
DEVICE void blend_into(Value (&out)[Many], const Elem* y, Value alpha, Value beta) {
    if (alpha == 1 && beta == 0) return;
    UNROLL for (int i = 0; i < Many; ++i) out[i] *= alpha;
    if (beta != 0) {
        const Vec<Elem, Many> old = Vec<Elem, Many>::load(y);
        UNROLL for (int i = 0; i < Many; ++i) out[i] += beta * to_acc(old[i]);
    }
}

// ---- Many neighbours of each of some channels, which are `step` elements apart ----

// The same pointer, which is not taken apart: p + i * step is one instruction.
template <class Elem> DEVICE Elem* whole_pointer(Elem* p) {
    size_t at = __cvta_generic_to_global(p);
    asm("" : "+l"(at));
    return reinterpret_cast<Elem*>(__cvta_global_to_generic(at));
}

// Of channels c … c + Count - 1; 0 beyond the ends. p: of channel 0.
template <int Many, int Count, class Elem>
DEVICE void channels_of(Vec<Elem, Many> (&v)[Count], const Elem* p, i64 step, int c, int channels) {
    using Access = typename Vec<Elem, Many>::Access;
    p += c * step;
    UNROLL for (int i = 0; i < Count; ++i, p += step) {
        asm("" : "+l"(p));                                          // or each is p + i * step in 64 bits
        Access word{};
        if (unsigned(c + i) < unsigned(channels)) word = __ldg(reinterpret_cast<const Access*>(p));
        v[i] = reinterpret_cast<const Vec<Elem, Many>&>(word);
    }
}

// A step of 32 bits, new in each round: p + i * step is one instruction then, and takes no register between
// rounds.
DEVICE i64 near_step(i64 step) {
    int near = int(step);
    asm volatile("" : "+r"(near));
    return near;
}

// Of Count channels that are there, and near.
template <class Elem, int Many, int Count>
DEVICE void next_channels(Vec<Elem, Many> (&v)[Count], const Elem* p, i64 step) {
    step = near_step(step);
    UNROLL for (int i = 0; i < Count; ++i) v[i] = Vec<Elem, Many>::load_nc(p + i * step);
}

// Blend and store the first `count`. is_plain: all are there, near, and not blended.
template <class Elem, class Value, int Count, int Many>
DEVICE void put_channels(Elem* y, i64 step, Value (&out)[Count][Many], bool is_plain, int count, Value alpha,
                         Value beta) {
    if (is_plain) {
        step = near_step(step);
        UNROLL for (int i = 0; i < Count; ++i) Vec<Elem, Many>::of(out[i]).store(y + i * step);
    } else UNROLL for (int i = 0; i < Count; ++i, y += step) {
        y = whole_pointer(y);
        if (i < count) put(y, out[i], alpha, beta);
    }
}

}  // namespace cydnn
