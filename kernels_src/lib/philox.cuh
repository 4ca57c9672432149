// The random bits of tensors: cydnn/ops/philox.py in CUDA, bit for bit.
//
//   philox(counter, key)          Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011)
//   draw.words(octet, is_lower)   the halves of the numbers of an octet
//   draw.kept(octet, threshold)   an Octet; bit i of its bits(): element 8 * octet + i is kept
//   draw.keep(out, octets, threshold)   several of them
#pragma once
#include "types.cuh"

namespace cydnn {

// What is kept of an octet: of element i, the (i % 2)th half of m[i / 2] is all ones.
struct Octet {
    unsigned m[4];
    DEVICE unsigned bits() const {
        const unsigned low = (m[0] & 0x00020001) | (m[1] & 0x00080004);
        const unsigned high = (m[2] & 0x00200010) | (m[3] & 0x00800040);
        return (low | high | (low | high) >> 16) & 0xFF;
    }
};

// PTX ISA §mul (.wide): a product of 64-bit numbers, as compilers write it, has steps for the upper halves.
DEVICE unsigned long long mul_wide(unsigned a, unsigned b) {
    unsigned long long product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
}

DEVICE uint4 philox(uint4 c, uint2 key) {
    UNROLL for (int round = 0; round < 10; ++round) {
        const unsigned long long a = mul_wide(c.x, 0xD2511F53), b = mul_wide(c.z, 0xCD9E8D57);
        c = make_uint4(unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y,
                       unsigned(a));
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return c;
}

// p * 2^32 in two halves: `upper` is compared with 16 bits of each element, `lower` only where these are
// equal. All of 2^32 is {2^16 - 1, 2^16}.
struct Threshold { unsigned upper, lower; };

// Two halves of a word at once: bits 15 and 31 of the result say which is greater than that of `than`; the
// rest is noise. (A half is greater where than - word borrows; no half here borrows from the other.)
DEVICE unsigned greater2(unsigned word, unsigned than) {
    const unsigned less = (than | 0x80008000) - (word & 0x7FFF7FFF);
    return (word & ~than) | (~(word ^ than) & ~less);
}
// Bits 15 and 31, spread over their halves. PTX ISA §prmt: a selector of 8 or more copies a byte's sign.
DEVICE unsigned spread2(unsigned word) {
    unsigned out;
    asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(out) : "r"(word));
    return out;
}

struct Draw {
    unsigned long long seed, draws;

    DEVICE uint4 words(i64 octet, unsigned is_lower) const {
        return philox(make_uint4(unsigned(octet), unsigned(octet >> 32) | is_lower << 31, unsigned(draws),
                                 unsigned(draws >> 32)), make_uint2(unsigned(seed), unsigned(seed >> 32)));
    }
    // Octets drawn together share the keys of the rounds, and one branch.
    template <int Count> DEVICE void keep(Octet (&out)[Count], const i64 (&octet)[Count], Threshold t) const {
        const unsigned than = t.upper * 0x10001;
        unsigned word[Count][4], apart = ~0u;        // bits 15 and 31: all halves differ in their other bits
        UNROLL for (int i = 0; i < Count; ++i) {
            const uint4 r = words(octet[i], 0);
            word[i][0] = r.x, word[i][1] = r.y, word[i][2] = r.z, word[i][3] = r.w;
        }
        UNROLL for (int i = 0; i < Count; ++i)
            UNROLL for (int k = 0; k < 4; ++k) {
                out[i].m[k] = spread2(greater2(word[i][k], than));
                apart &= ((word[i][k] ^ than) & 0x7FFF7FFF) + 0x7FFF7FFF;
            }
        if (~apart & 0x80008000)                     // one octet in 4096
            UNROLL for (int i = 0; i < Count; ++i) settle(out[i], word[i], octet[i], t);
    }
    DEVICE Octet kept(i64 octet, Threshold t) const {
        Octet out[1];
        keep(out, {octet}, t);
        return out[0];
    }
    DEVICE void settle(Octet& out, const unsigned (&word)[4], i64 octet, Threshold t) const {
        const uint4 r = words(octet, 1);
        const unsigned more[4] = {r.x, r.y, r.z, r.w};
        UNROLL for (int k = 0; k < 4; ++k) {
            if ((word[k] & 0xFFFF) == t.upper && (more[k] & 0xFFFF) >= t.lower) out.m[k] |= 0xFFFF;
            if (word[k] >> 16 == t.upper && more[k] >> 16 >= t.lower) out.m[k] |= 0xFFFF0000;
        }
    }
};

}  // namespace cydnn
