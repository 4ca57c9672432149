// Dropout on packed tensors: a warp has 32 octets, lane by lane one byte of the mask, and the elements of
// all of them in 16-byte vectors that follow each other lane by lane.
//
//   octet  o .. o + 31            kept bits: lane L has those of octet o + L
//   vector v .. v + 32 * R - 1    R = 8 / (elements of a vector) vectors a lane: v + 32 * j + L, which is
//                                 part (L % R) of octet o + (32 * j + L) / R
#pragma once
#include "lib/philox.cuh"

namespace cydnn {

template <class Elem> struct Octets {
    static constexpr int width = 16 / sizeof(Elem), parts = 8 / width;
    using Unit = Vec<Elem, width>;
    Unit v[parts];

    // x: the first element of the warp's 32 octets, all of which are there.
    DEVICE void load(const Elem* x) {
        UNROLL for (int j = 0; j < parts; ++j) v[j] = Unit::load(x + (32 * j + threadIdx.x % 32) * width);
    }
    // y = kept ? x * factor : 0: selected, not multiplied, so that a NaN that is dropped is gone.
    DEVICE void store(Elem* y, unsigned bits, acc_t<Elem> factor) {
        const int lane = threadIdx.x % 32;
        UNROLL for (int j = 0; j < parts; ++j) {
            const unsigned byte = parts == 1 ? bits : __shfl_sync(~0u, bits, (32 * j + lane) / parts);
            const unsigned mine = byte >> lane % parts * width;
            acc_t<Elem> a[width];
            v[j].get(a);
            UNROLL for (int i = 0; i < width; ++i) a[i] = mine >> i & 1 ? a[i] * factor : acc_t<Elem>(0);
            Unit::of(a).store(y + (32 * j + lane) * width);
        }
    }
    // Of 16 bits an octet is one vector, and its words are masked.
    DEVICE void store(Elem* y, const Octet& kept, acc_t<Elem> factor) {
        if constexpr (sizeof(Elem) == 2) {
            acc_t<Elem> a[width];
            v[0].get(a);
            UNROLL for (int i = 0; i < width; ++i) a[i] *= factor;
            Unit out = Unit::of(a);
            UNROLL for (int k = 0; k < 4; ++k) reinterpret_cast<unsigned*>(&out)[k] &= kept.m[k];
            out.store(y + threadIdx.x % 32 * width);
        } else store(y, kept.bits(), factor);
    }
};

// Eight bytes of bits turned: bit j of byte i becomes bit i of byte j (Warren, Hacker's Delight, 7-3).
DEVICE unsigned long long turned(unsigned long long b) {
    unsigned long long t = (b ^ b >> 7) & 0x00AA00AA00AA00AAull;
    b ^= t ^ t << 7;
    t = (b ^ b >> 14) & 0x0000CCCC0000CCCCull;
    b ^= t ^ t << 14;
    t = (b ^ b >> 28) & 0x00000000F0F0F0F0ull;
    return b ^ t ^ t << 28;
}

// Eight rows of eight channels, `step` elements apart, `ahead` of them at a time: load(x, step) those of the
// first time; then select: bit i of byte j of `rows` says what of row j is kept.
template <class Elem> struct Rows {
    static constexpr int ahead = sizeof(Elem) == 2 ? 8 : sizeof(Elem) == 4 ? 4 : 2;
    Vec<Elem, 8> held[ahead];
    DEVICE void load(const Elem* x, i64 step) {
        UNROLL for (int j = 0; j < ahead; ++j) held[j] = Vec<Elem, 8>::load(x + j * step);
    }
    // Bits 2 * k and 2 * k + 1, each spread over a half: a product brings them to bits 15 and 31.
    static DEVICE unsigned pair(unsigned bits, int k) {
        unsigned out;
        asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(out) : "r"((bits & 0xFF) * (0x40008000u >> 2 * k)));
        return out;
    }
    DEVICE void select(const Elem* x, Elem* y, i64 step, unsigned long long rows, acc_t<Elem> factor) {
        UNROLL for (int base = 0; base < 8; base += ahead) {
            if (base > 0) load(x + base * step, step);
            UNROLL for (int j = 0; j < ahead; ++j) {
                const unsigned bits = unsigned(rows >> 8 * (base + j));
                acc_t<Elem> a[8];
                held[j].get(a);
                if constexpr (sizeof(Elem) == 2) {
                    UNROLL for (int i = 0; i < 8; ++i) a[i] *= factor;
                    auto out = Vec<Elem, 8>::of(a);
                    UNROLL for (int k = 0; k < 4; ++k) reinterpret_cast<unsigned*>(&out)[k] &= pair(bits, k);
                    out.store(y + (base + j) * step);
                    continue;
                }
                UNROLL for (int i = 0; i < 8; ++i) a[i] = bits >> i & 1 ? a[i] * factor : acc_t<Elem>(0);
                Vec<Elem, 8>::of(a).store(y + (base + j) * step);
            }
        }
    }
};

// Group g of eight channels at eight positions of an NHWC tensor, octet o of image n: channels follow each
// other.
struct Patch {
    i64 octet, at;                                       // of the first channel; element in memory
    DEVICE Patch(unsigned n, unsigned o, unsigned g, unsigned groups, unsigned octets)
        : octet((i64(n) * groups + g) * 8 * octets + o), at(((i64(n) * octets + o) * 8 * groups + g) * 8) {}
};

template <class Elem> DEVICE Elem chosen(Elem x, unsigned bit, acc_t<Elem> factor) {
    return from_acc<Elem>(bit ? to_acc(x) * factor : acc_t<Elem>(0));
}

}  // namespace cydnn
