// The random bits of dropout: cydnn/ops/philox.py in CUDA, bit for bit.
//
//   philox(counter, key)          Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011)
//   next_draw(states, seen)       a Draw, for all threads of a block; `seen` is shared memory
//   draw.kept(octet, threshold)   bit i: element 8 * octet + i is kept; threshold = p * 2^32, in two halves
//
// states: {seed, draws * 2^24 + blocks}. One addition counts a block and says how many draws came before;
// the last block of a launch takes the blocks away and counts the draw, so all have seen the same number.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

DEVICE uint4 philox(uint4 c, uint2 key) {
    UNROLL for (int round = 0; round < 10; ++round) {
        const unsigned long long a = c.x * 0xD2511F53ull, b = c.z * 0xCD9E8D57ull;
        c = make_uint4(unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y,
                       unsigned(a));
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return c;
}

// p * 2^32: `upper` (0 to 2^16) is compared with 16 bits of each element, `lower` only where these are equal.
struct Threshold { unsigned upper, lower; };

struct Draw {
    unsigned long long seed, draws;

    DEVICE unsigned half(uint4 r, int i) const {
        const unsigned word = i < 2 ? r.x : i < 4 ? r.y : i < 6 ? r.z : r.w;
        return i % 2 ? word >> 16 : word & 0xFFFF;
    }
    DEVICE uint4 words(i64 octet, unsigned is_lower) const {
        return philox(make_uint4(unsigned(octet), unsigned(octet >> 32) | is_lower << 31, unsigned(draws),
                                 unsigned(draws >> 32)), make_uint2(unsigned(seed), unsigned(seed >> 32)));
    }
    DEVICE unsigned kept(i64 octet, Threshold t) const {
        const uint4 r = words(octet, 0);
        unsigned bits = 0, open = 0;
        UNROLL for (int i = 0; i < 8; ++i) {
            bits |= half(r, i) > t.upper ? 1u << i : 0u;
            open |= half(r, i) == t.upper ? 1u << i : 0u;
        }
        if (open) {                                  // one octet in 8192
            const uint4 more = words(octet, 1);
            UNROLL for (int i = 0; i < 8; ++i) bits |= half(more, i) >= t.lower ? open & 1u << i : 0u;
        }
        return bits;
    }
};

// One thread counts for its block.
DEVICE Draw next_draw(i64* states, unsigned long long (&seen)[2]) {
    constexpr unsigned long long one_draw = 1ull << 24;
    if (threadIdx.x == 0) {
        auto* counter = reinterpret_cast<unsigned long long*>(states + 1);
        const unsigned long long before = atomicAdd(counter, 1ull);
        if (before % one_draw == gridDim.x - 1) atomicAdd(counter, one_draw - gridDim.x);
        seen[0] = states[0], seen[1] = before / one_draw;
    }
    __syncthreads();
    return {seen[0], seen[1]};
}

}  // namespace cydnn
