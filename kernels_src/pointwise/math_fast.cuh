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
        return copysignf(a < 0.3f ? series : ratio(1.f - e, 1.f + e), x);            // of -0 too
    }

    static DEVICE float log1p(float x) {             // x in 0 … 1; below 1/64 the sum 1 + x loses bits of x
        return x < 0.015625f ? x - x * x * (0.5f - x * (1.f / 3)) : log_fast(1.f + x);
    }
    static DEVICE float expm1(float x) {
        const float series = x * (1.f + x * (0.5f + x * (1.f / 6 + x * (1.f / 24 + x * (1.f / 120)))));
        return fabsf(x) < 0.25f ? series : exp(x) - 1.f;                        // -0 stays -0
    }
    // A NaN stays one, and where it overflows the reciprocal is 0.
    static DEVICE float sigmoid(float x) { return reciprocal(1.f + exp(-x)); }
    static DEVICE float sigmoid(float x, float beta) { return sigmoid(x * beta); }

    // 1 - normal(z) for z >= 0 is 2^p(z); p is fitted by tools/fit_normal.py: relative error below 2^-17
    // up to z = 6.5 (f16 ends at 5.8), and from there on 2^p falls to 0 faster than it should.
    static DEVICE float upper(float z) {
        const float far = -9.16362973e-4f + z * (5.99365849e-5f - z * 1.75777689e-6f);
        const float high = -0.45861572f + z * (-0.053824503f + z * (8.44738539e-3f + z * far));
        return exp2(-1.00000381f + z * (-1.15118015f + z * high));
    }
    static DEVICE float normal(float x) {
        float part = upper(fabsf(x));
        // one instruction less than with a select
        asm("{\n\t.reg .pred p;\n\tsetp.gt.f32 p, %1, 0f00000000;\n\t"
            "@p sub.rn.f32 %0, 0f3F800000, %0;\n\t}" : "+f"(part) : "f"(x));
        return part;
    }
    static DEVICE float gelu(float x) { return x * normal(x); }
};

}  // namespace cydnn
