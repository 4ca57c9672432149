// The accurate functions behind ops.cu: a few units in the last place, no local memory, no calls for float.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

// sin, cos and tan of float: the argument is reduced by multiples of pi/2 into [-pi/4, pi/4], in
// double; then a Taylor series.
struct Angle {
    double rest;
    int quadrant;
};

// Below 2^30 a two-part pi/2 is enough: the product with the high part is exact after the
// fma, the low part adds 53 bits.
DEVICE Angle reduce_near(float x) {
    const double k = rint(double(x) * 0.63661977236758134308);
    return {fma(-k, 6.123233995736766036e-17, fma(-k, 1.57079632679489655800, double(x))), int(int64_t(k))};
}

// |x| = m * 2^e with a 24-bit m and e in 6 … 104. Bits of 2/pi above the weight 2^(1-e) give multiples of 4
// quadrants, so a window of 96 bits from there, times m, modulo 2^96, is the angle as a 96-bit fraction of 4
// quadrants (Payne and Hanek, 1983).
DEVICE Angle reduce_far(float x) {
    const unsigned bits = __float_as_uint(x), m = (bits & 0x7fffffu) | 0x800000u;
    const unsigned skip = (bits >> 23 & 0xffu) - 152u, word = skip >> 5, shift = skip & 31u;
    const unsigned w0 = word == 0 ? 0xA2F9836Eu : word == 1 ? 0x4E441529u
                      : word == 2 ? 0xFC2757D1u : 0xF534DDC0u;
    const unsigned w1 = word == 0 ? 0x4E441529u : word == 1 ? 0xFC2757D1u
                      : word == 2 ? 0xF534DDC0u : 0xDB629599u;
    const unsigned w2 = word == 0 ? 0xFC2757D1u : word == 1 ? 0xF534DDC0u
                      : word == 2 ? 0xDB629599u : 0x3C439041u;
    const unsigned w3 = word == 0 ? 0xF534DDC0u : word == 1 ? 0xDB629599u
                      : word == 2 ? 0x3C439041u : 0xFE5163ABu;
    const unsigned a = __funnelshift_l(w1, w0, shift), b = __funnelshift_l(w2, w1, shift);
    const unsigned c = __funnelshift_l(w3, w2, shift);
    const uint64_t low = uint64_t(m) * c, mid = uint64_t(m) * b + (low >> 32);
    const uint64_t turn = (uint64_t(m * a) << 32) + mid;             // 64 bits: 2 of quadrant, 62 of fraction
    const int64_t nearest = int64_t(turn + (uint64_t(1) << 61)) >> 62;
    constexpr double unit = 1.57079632679489661923 / 4611686018427387904.0;         // a quadrant / 2^62
    const double rest = double(int64_t(turn - (uint64_t(nearest) << 62))) * unit;
    return bits >> 31 ? Angle{-rest, -int(nearest)} : Angle{rest, int(nearest)};
}
DEVICE Angle reduce(float x) { return fabsf(x) < 1073741824.f ? reduce_near(x) : reduce_far(x); }

DEVICE double sine(double r) {
    const double s = r * r;
    return r + r * s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 + s * (
                        1.0 / 362880 - s * (1.0 / 39916800)))));
}
DEVICE double cosine(double r) {
    const double s = r * r;
    return 1 - s * (0.5 - s * (1.0 / 24 - s * (1.0 / 720 - s * (
                    1.0 / 40320 - s * (1.0 / 3628800 - s * (1.0 / 479001600))))));
}
DEVICE float finite_or_nan(float x, double y) { return fabsf(x) <= FLT_MAX ? float(y) : x - x; }

struct Exact {
    static DEVICE float exp(float x) { return expf(x); }
    static DEVICE double exp(double x) { return ::exp(x); }
    static DEVICE float log1p(float x) { return log1pf(x); }
    static DEVICE double log1p(double x) { return ::log1p(x); }
    static DEVICE float expm1(float x) { return expm1f(x); }
    static DEVICE double expm1(double x) { return ::expm1(x); }
    static DEVICE float tanh(float x) { return tanhf(x); }
    static DEVICE double tanh(double x) { return ::tanh(x); }
    // (1 + erf(x / sqrt 2)) / 2 without cancellation
    static DEVICE float normal(float x) { return normcdff(x); }
    static DEVICE double normal(double x) { return normcdf(x); }
    template <class Value> static DEVICE Value gelu(Value x) { return x * normal(x); }
    template <class Value> static DEVICE Value elu(Value x, Value a) { return x > 0 ? x : a * expm1(x); }
    template <class Value> static DEVICE Value ratio(Value a, Value b) { return a / b; }
    template <class Value> static DEVICE Value quotient(Value a, Value b) { return a / b; }

    // exp(a * b): the rounding error of the product is put back, or it would be multiplied
    // by the size of the product.
    template <class Value> static DEVICE Value exp_of_product(Value a, Value b) {
        const Value p = a * b, e = exp(p);
        return fabs(p) < Value(700) ? e + e * fma(a, b, -p) : e;
    }
    // No exponential overflows: e = exp(-|x|).
    template <class Value> static DEVICE Value sigmoid(Value x) {
        const Value e = exp(-fabs(x));
        return (x >= 0 ? Value(1) : e) / (1 + e);
    }
    template <class Value> static DEVICE Value sigmoid(Value x, Value beta) {
        const Value e = exp_of_product(fabs(x), -fabs(beta));
        return (beta * x >= 0 ? Value(1) : e) / (1 + e);
    }
    template <class Value> static DEVICE Value gate(Value x) { return sigmoid(x); }
    template <class Value> static DEVICE Value log1p_decay(Value x, Value beta) {
        return log1p(exp_of_product(fabs(x), -fabs(beta)));
    }

    static DEVICE float sin(float x) {
        const Angle a = reduce(x);
        const double s = a.quadrant & 1 ? cosine(a.rest) : sine(a.rest);
        return x == 0 ? x : finite_or_nan(x, a.quadrant & 2 ? -s : s);
    }
    static DEVICE float cos(float x) {
        const Angle a = reduce(x);
        const double c = a.quadrant & 1 ? sine(a.rest) : cosine(a.rest);
        return finite_or_nan(x, (a.quadrant + 1) & 2 ? -c : c);
    }
    static DEVICE float tan(float x) {
        const Angle a = reduce(x);
        const double s = sine(a.rest), c = cosine(a.rest);
        return x == 0 ? x : finite_or_nan(x, a.quadrant & 1 ? -c / s : s / c);
    }
    static DEVICE double sin(double x) { return ::sin(x); }
    static DEVICE double cos(double x) { return ::cos(x); }
    static DEVICE double tan(double x) { return ::tan(x); }
};

}  // namespace cydnn
