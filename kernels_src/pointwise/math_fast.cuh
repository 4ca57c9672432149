// Faster functions for results that are rounded to 16 bits: a few special-function instructions,
// relative error below 2^-17, which is 1/32 of the rounding of f16. No branches, so that the loads
// of the next vector pass by.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

struct Fast {
    // PTX ISA §ex2, §rcp (.approx.ftz): one instruction each; without .ftz, three more
    // that save subnormal numbers.
    static DEVICE float exp2(float x) {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
    static DEVICE float reciprocal(float x) {
        float y;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
    static DEVICE float exp(float x) { return exp2(x * 1.4426950408889634f); }
    // b is 1 or more wherever it is used.
    static DEVICE float ratio(float a, float b) { return a * reciprocal(b); }
    static DEVICE float exp_of_product(float a, float b) { return exp(a * b); }

    static DEVICE float tanh(float x) {                     // below 0.3 the quotient cancels: a Taylor series
        const float a = fabsf(x), s = x * x, e = exp(-2.f * a);
        const float series = x + x * s * (-1.f / 3 + s * (2.f / 15 + s * (-17.f / 315 + s * (62.f / 2835))));
        return a < 0.3f ? series : copysignf(ratio(1.f - e, 1.f + e), x);
    }

    static DEVICE float log1p(float x) {             // x in 0 … 1; below 1/64 the sum 1 + x loses bits of x
        return x < 0.015625f ? x - x * x * (0.5f - x * (1.f / 3)) : log_fast(1.f + x);
    }
    static DEVICE float expm1(float x) {
        const float series = x + x * x * (0.5f + x * (1.f / 6 + x * (1.f / 24 + x * (1.f / 120))));
        return fabsf(x) < 0.25f ? series : exp(x) - 1.f;
    }
    // 1 - normal(z) = exp(-z^2 / 2) * q(1 / (1 + 0.31 z)) for z >= 0; q is fitted, relative
    // error 4.7e-6 up to z = 14.
    static DEVICE float normal(float x) {
        const float z = fabsf(x), t = reciprocal(1.f + 0.31f * z), e = exp2(x * x * -0.72134752f);
        const float high = 0.015744013f + t * (0.18045136f - t * 0.073929525f);
        const float q = t * (0.12386066f + t * (0.12044145f + t * (0.13342974f + t * high)));
        const float tail = q * e;
        return x > 0.f ? 1.f - tail : tail;
    }
};

}  // namespace cydnn
