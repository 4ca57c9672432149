// Faster functions for results that are rounded to 16 bits: a few special-function instructions, and beside
// that rounding the error that tests/support/compare.py allows an f32: 10 * 2^-23 of the result (of GELU: of
// the result and x). Beyond |x| = 11, where f16 has subnormal numbers, the rounding of x * log2(e) makes exp
// worse, up to 2^-18. Polynomials are fitted by tools/fit_fast.py. No branches, so that the loads of the next
// vector pass by.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

struct Fast {
    static constexpr float LOG2_E = 1.4426950408889634f;

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
    static DEVICE float exp(float x) { return exp2(x * LOG2_E); }
    // b is 1 or more wherever it is used.
    static DEVICE float ratio(float a, float b) { return a * reciprocal(b); }
    // PTX ISA §div (.full): any b, two units in the last place
    static DEVICE float quotient(float a, float b) {
        float y;
        asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
        return y;
    }
    // x > limit ? above : y, by a move: of a select the compiler makes a branch.
    static DEVICE float unless_above(float limit, float x, float above, float y) {
        asm("{\n\t.reg .pred p;\n\tsetp.gt.f32 p, %1, %2;\n\t@p mov.f32 %0, %3;\n\t}"
            : "+f"(y) : "f"(x), "f"(limit), "f"(above));
        return y;
    }
    static DEVICE float exp_of_product(float a, float b) { return exp(a * b); }

    static DEVICE float tanh(float x) {                     // below 0.3 the quotient cancels: a Taylor series
        const float a = fabsf(x), s = x * x, e = exp(-2.f * a);
        const float series = x + x * s * (-1.f / 3 + s * (2.f / 15 + s * (-17.f / 315 + s * (62.f / 2835))));
        return copysignf(a < 0.3f ? series : ratio(1.f - e, 1.f + e), x);            // of -0 too
    }

    // log(1 + e) for e = exp(-|beta x|), by a polynomial of e. 256 e is no subnormal number as long as the
    // result is one that bf16 has.
    static DEVICE float log1p_decay(float x, float beta) {
        constexpr float part = 1.f / 256;
        const float more = exp2(fmaf(fabsf(x), fabsf(beta) * -LOG2_E, 8.f)), e = part * more;
        const float far = part * -0.109910265f + e * (part * 0.0457187146f - e * (part * 9.00666602e-3f));
        const float high = part * -0.245479122f + e * (part * 0.178962499f + e * far);
        const float slope = part * -0.499979407f + e * (part * 0.332841367f + e * high);
        return more * (part * 0.999999881f + e * slope);
    }
    static DEVICE float expm1(float x) {             // x <= 0; -0 stays -0
        const float high = 0.166548148f + x * (0.0410012789f + x * 6.77103736e-3f);
        return unless_above(-0.5f, x, x * (0.99999994f + x * (0.49999249f + x * high)), exp(x) - 1.f);
    }
    static DEVICE float elu(float x, float alpha) { return unless_above(0.f, x, x, alpha * expm1(x)); }
    // A NaN stays one, and where exp overflows the reciprocal is 0. gate: a factor of x.
    static DEVICE float gate(float x) { return reciprocal(1.f + exp(-x)); }
    // Both sides of the quotient are 2^-16 of what they are, or it would be 0 where bf16 has subnormal
    // numbers.
    static DEVICE float sigmoid(float x, float beta = 1.f) {
        constexpr float part = 1.f / 65536;
        return part * reciprocal(part + exp2(fmaf(x, beta * -LOG2_E, -16.f)));
    }

    // 1 - normal(z) for z >= 0 is 2^p(z). gelu(-z) = -z * 2^p(z) has an error of 2^-21 of z, and of 2^-15 of
    // itself up to z = 6.5 (f16 ends at 5.8); from there on 2^p falls to 0 faster than it should.
    static DEVICE float upper(float z) {
        const float far = -8.96833953e-4f + z * (5.73939105e-5f - z * 1.63248671e-6f);
        const float high = -0.458673567f + z * (-0.05371245f + z * (8.37764703e-3f + z * far));
        return exp2(-0.999997854f + z * (-1.15119052f + z * high));
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
