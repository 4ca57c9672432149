// Elements of 8 bits, and pairs of them as pairs of 16 bits.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

struct f8_e4m3 { unsigned char bits; };
struct f8_e5m2 { unsigned char bits; };

// PTX ISA §cvt (.e4m3x2, .e5m2x2 to .f16x2): f16 holds every value of both.
DEVICE __half2 halves_of(unsigned short pair, f8_e4m3) {
    unsigned r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
    return reinterpret_cast<const __half2&>(r);
}
DEVICE __half2 halves_of(unsigned short pair, f8_e5m2) {
    unsigned r;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(pair));
    return reinterpret_cast<const __half2&>(r);
}
// 16 elements in 16 bytes that lie side by side, as pairs of f32.
template <class Elem> struct Eights {
    uint4 words = {};
    DEVICE static Eights load(const Elem* from) { return {__ldg(reinterpret_cast<const uint4*>(from))}; }
    DEVICE float2 operator[](int i) const {                          // unroll
        const unsigned word = reinterpret_cast<const unsigned*>(&words)[i / 2];
        return __half22float2(halves_of(static_cast<unsigned short>(word >> i % 2 * 16), Elem()));
    }
    DEVICE void widen(bf16* to) const {
        Vec<bf16, 16> y;
        UNROLL for (int i = 0; i < 8; ++i) from_acc2(y.v + 2 * i, (*this)[i].x, (*this)[i].y);
        y.store(to);
    }
};

}  // namespace cydnn
