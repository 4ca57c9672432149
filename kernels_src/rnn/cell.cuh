// The cells of recurrent networks: one step of an element, forward and backward.
//
//   Vanilla  h' = relu or tanh                gates: 1, kept: h'
//   Lstm     i, f, n, o; c' = f c + i n       gates: 4, kept: i f n o
//   Gru      r, i, n; h' = (1 - i) n + i h    gates: 3, kept: r i n q with q = R_n h + bR_n
//
//   Cell::forward<T>(x, y, h, c, kept, is_tanh)   x: input side with its bias, y: recurrent side with its
//                                                 bias, of each gate; h and c become those of the step
//   Cell::backward(kept, dh, s, delta, is_tanh)   s: what the step had and the gradient of c (Memory); delta:
//                                                 gradients of the gates before their functions, and for GRU
//                                                 that of q. dh becomes what goes to the step before without
//                                                 a product, s.dc that of c before
#pragma once
#include "lib/math.cuh"

namespace cydnn {

// 16-bit results need no more than the special-function unit gives.
struct Smooth16 {
    // PTX ISA §ex2, §rcp (.approx.ftz.f32): below 2^-126 is 0, so that nothing is scaled before and after.
    // exp(-x) = inf gives 1/inf = 0.
    static DEVICE float sigmoid(float x) {
        float e, r;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950408889634f));
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.f + e));
        return r;
    }
    // An error of 2^-22, as its argument has from the sums; not relative to a small result.
    static DEVICE float tanh(float x) { return 2 * sigmoid(2 * x) - 1; }
};
template <class A> struct SmoothFull {
    static DEVICE A sigmoid(A x) { return A(1) / (A(1) + exp(-x)); }
    static DEVICE A tanh(A x) { return ::tanh(x); }
};
template <class Elem> struct Smoothly : Smooth16 {};
template <> struct Smoothly<f32> : SmoothFull<f32> {};
template <> struct Smoothly<f64> : SmoothFull<f64> {};

// 1 - n n, the derivative of tanh where it is n, rounded once. A product and a difference ptxas fuses or not;
// the rounded square of an f32 would cost up to 2^-13.5 of what is left.
template <class A> DEVICE A slope(A n) { return fma(-n, n, A(1)); }

template <class A> struct Memory { A h_before, c_before, c, dc; };

struct Vanilla {
    static constexpr int Gates = 1, Kept = 1;
    static constexpr bool has_c = false, has_h = false;
    template <class Elem, class A>
    static DEVICE void forward(const A (&x)[1], const A (&y)[1], A& h, A&, A (&kept)[1], bool is_tanh) {
        const A v = x[0] + y[0];
        h = kept[0] = is_tanh ? Smoothly<Elem>::tanh(v) : v < 0 ? A(0) : v;
    }
    template <class A>
    static DEVICE void backward(const A (&kept)[1], A& dh, Memory<A>&, A (&delta)[1], bool is_tanh) {
        delta[0] = is_tanh ? dh * slope(kept[0]) : kept[0] > 0 ? dh : A(0);
        dh = 0;
    }
};

struct Lstm {
    static constexpr int Gates = 4, Kept = 4;
    static constexpr bool has_c = true, has_h = false;
    template <class Elem, class A>
    static DEVICE void forward(const A (&x)[4], const A (&y)[4], A& h, A& c, A (&kept)[4], bool) {
        using F = Smoothly<Elem>;
        kept[0] = F::sigmoid(x[0] + y[0]), kept[1] = F::sigmoid(x[1] + y[1]);
        kept[2] = F::tanh(x[2] + y[2]), kept[3] = F::sigmoid(x[3] + y[3]);
        c = kept[1] * c + kept[0] * kept[2];
        h = kept[3] * F::tanh(c);
    }
    template <class A>
    static DEVICE void backward(const A (&kept)[4], A& dh, Memory<A>& s, A (&delta)[4], bool) {
        const A i = kept[0], f = kept[1], n = kept[2], o = kept[3], t = SmoothFull<A>::tanh(s.c);
        const A dc = s.dc + dh * o * slope(t);
        delta[0] = dc * n * i * (1 - i), delta[1] = dc * s.c_before * f * (1 - f);
        delta[2] = dc * i * slope(n), delta[3] = dh * t * o * (1 - o);
        s.dc = dc * f;
        dh = 0;
    }
};

struct Gru {
    static constexpr int Gates = 3, Kept = 4;
    static constexpr bool has_c = false, has_h = true;
    template <class Elem, class A>
    static DEVICE void forward(const A (&x)[3], const A (&y)[3], A& h, A&, A (&kept)[4], bool) {
        using F = Smoothly<Elem>;
        kept[0] = F::sigmoid(x[0] + y[0]), kept[1] = F::sigmoid(x[1] + y[1]), kept[3] = y[2];
        kept[2] = F::tanh(x[2] + kept[0] * y[2]);
        h = (1 - kept[1]) * kept[2] + kept[1] * h;
    }
    template <class A>
    static DEVICE void backward(const A (&kept)[4], A& dh, Memory<A>& s, A (&delta)[4], bool) {
        const A r = kept[0], i = kept[1], n = kept[2];
        delta[1] = dh * (s.h_before - n) * i * (1 - i);
        delta[2] = dh * (1 - i) * slope(n);
        delta[0] = delta[2] * kept[3] * r * (1 - r);
        delta[3] = delta[2] * r;
        dh *= i;
    }
};

// The words of the axis CELL.
namespace vanilla { using Cell = Vanilla; }
namespace lstm { using Cell = Lstm; }
namespace gru { using Cell = Gru; }

// ---- Where a step's rows are ----

// A step takes part in `steps` steps in the order of its direction; `starts` (steps + 1 of them) says where
// the rows of each time begin where the batch shrinks, else every time has `batch` rows.
struct Walk {
    const int* starts;
    int steps, batch;
    DEVICE int time(int step, bool is_reverse) const { return is_reverse ? steps - 1 - step : step; }
    DEVICE i64 first(int time) const { return starts ? i64(starts[time]) : i64(time) * batch; }
    DEVICE int rows(int time) const {
        return time < 0 || time >= steps ? 0 : starts ? starts[time + 1] - starts[time] : batch;
    }
};

}  // namespace cydnn
