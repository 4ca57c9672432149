// Small arithmetic shared by more than one family. Every function has a float and a double form.
//
//   ceil_div(n, d)                     integers, both >= 0
//   max_nan, min_nan                   a NaN on either side wins;  fmax, fmin of CUDA: a number wins
//   exp_fast exp2_fast log_fast rcp_fast rsqrt_fast div_fast
//                                      float: one special-function instruction, relative error of about 2^-21
//                                      (exp_fast of a large |x|: |x| * 2^-23); double: the accurate function
//   sigmoid, tanh_of                   error below 2^-21 of the result (sigmoid(x << 0): like exp_fast),
//                                      limits at +-inf
//   mul_rn(a, b)                       a product that is never contracted into a fused multiply-add
//   blend(alpha, r, beta, y)           alpha*r + beta*y[0]; y is not read when beta is 0
#pragma once
#include "types.cuh"

namespace cydnn {

template <class Int> DEVICE constexpr Int ceil_div(Int n, Int d) { return (n + d - 1) / d; }

// PTX ISA §max, §min (floating point, .NaN): from sm_80 on; by hand before.
DEVICE float max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return a == a && b == b ? fmaxf(a, b) : a + b;
#endif
}
DEVICE float min_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return a == a && b == b ? fminf(a, b) : a + b;
#endif
}
DEVICE double max_nan(double a, double b) { return a == a && b == b ? fmax(a, b) : a + b; }
DEVICE double min_nan(double a, double b) { return a == a && b == b ? fmin(a, b) : a + b; }

// PTX ISA §ex2 (.approx.f32)
DEVICE float exp2_fast(float x) {
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
DEVICE double exp2_fast(double x) { return exp2(x); }
DEVICE float exp_fast(float x) { return exp2_fast(x * 1.4426950408889634f); }
DEVICE double exp_fast(double x) { return exp(x); }

DEVICE float log_fast(float x) { return __logf(x); }  // PTX ISA §lg2 (.approx); near 1: 2^-21 absolute
DEVICE double log_fast(double x) { return log(x); }

// PTX ISA §rcp (.approx.f32)
DEVICE float rcp_fast(float x) {
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
DEVICE double rcp_fast(double x) { return 1.0 / x; }

// PTX ISA §rsqrt (.approx.f32)
DEVICE float rsqrt_fast(float x) { return rsqrtf(x); }
DEVICE double rsqrt_fast(double x) { return rsqrt(x); }

// PTX ISA §div (.approx.f32): 0 for |b| > 2^126
DEVICE float div_fast(float a, float b) { return __fdividef(a, b); }
DEVICE double div_fast(double a, double b) { return a / b; }

DEVICE float mul_rn(float a, float b) { return __fmul_rn(a, b); }
DEVICE double mul_rn(double a, double b) { return __dmul_rn(a, b); }

// exp(-x) = inf gives 1/inf = 0, so both ends are right without a branch.
DEVICE float sigmoid(float x) { return rcp_fast(1.f + exp_fast(-x)); }
DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// tanh(|x|) = (1 - e) / (1 + e) with e = exp(-2|x|); below 0.3 that cancels, so an odd polynomial
// (the Taylor series).
DEVICE float tanh_of(float x) {
    const float a = fabsf(x), s = x * x, e = exp_fast(-2.f * a);
    const float series = x + x * s * (-1.f / 3 + s * (2.f / 15 + s * (-17.f / 315 + s * (62.f / 2835))));
    return a < 0.3f ? series : copysignf((1.f - e) * rcp_fast(1.f + e), x);
}
DEVICE double tanh_of(double x) { return tanh(x); }

template <class Elem, class Value> DEVICE Value blend(Value alpha, Value r, Value beta, const Elem* y) {
    return beta == Value(0) ? alpha * r : alpha * r + beta * Value(to_acc(*y));
}

}  // namespace cydnn
