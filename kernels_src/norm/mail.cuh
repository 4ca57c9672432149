// Messages between GPUs, through mailboxes that each of them has in its memory.
//
// A message is one word: a number in its lower half, how many numbers it is of in the upper one, so that it
// is never zero and comes as a whole. A mailbox has a place for each peer, statistic and channel; a word
// waits in its place until the owner takes it, and then the place is zero for the next one: calls need no
// memset in between, and a peer may be ahead by one. No block waits for another one of its own grid.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

using u64 = unsigned long long;

// PTX ISA §ld, §st (.relaxed.sys): the word is all that is told
DEVICE u64 seen(const u64* place) {
    u64 word;
    asm volatile("ld.relaxed.sys.global.b64 %0, [%1];"
                 : "=l"(word) : "l"(__cvta_generic_to_global(place)) : "memory");
    return word;
}

DEVICE void put(u64* place, u64 word) {
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(place)), "l"(word)
                 : "memory");
}

DEVICE i64 nanoseconds() {
    i64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// The word in a place, once there is one (or none). A peer that does not come ends the launch with an error.
DEVICE u64 awaited(const u64* place, bool is_there, i64 patience) {
    u64 word;
    const i64 end = nanoseconds() + patience;
    i64 now;
    do now = nanoseconds(), word = seen(place);
    while ((word != 0) != is_there && now < end);
    if ((word != 0) != is_there) __trap();
    return word;
}

struct Peers {
    int channels, peers, rank, share;
    i64 patience;
};
struct Joined { double first, second, total; };

// Of one channel, by one thread: put the own statistics into all mailboxes, take the others' out of the own
// one. Moments: mean and biased variance of `share` numbers; else sums. In the order of ranks, the same for
// all.
template <bool Moments>
DEVICE Joined exchanged(const Peers& p, const Array<u64*, 32>& boxes, int c, float one, float other) {
    const float own[2] = {one, other};
    NO_UNROLL for (int k = 0; k < p.peers; ++k) {
        if (k == p.rank) continue;
        UNROLL for (int w = 0; w < 2; ++w) {
            u64* place = boxes[k] + i64(2 * p.rank + w) * p.channels + c;
            awaited(place, false, p.patience);
            put(place, u64(p.share) << 32 | __float_as_uint(own[w]));
        }
    }
    Joined all = {};
    NO_UNROLL for (int k = 0; k < p.peers; ++k) {
        float now[2] = {own[0], own[1]};
        double shared = p.share;
        if (k != p.rank)
            UNROLL for (int w = 0; w < 2; ++w) {
                u64* place = boxes[p.rank] + i64(2 * k + w) * p.channels + c;
                const u64 word = awaited(place, true, p.patience);
                put(place, 0);
                now[w] = __uint_as_float(unsigned(word)), shared = unsigned(word >> 32);
            }
        if constexpr (!Moments) {
            all.first += now[0], all.second += now[1];
        } else {
            const double apart = now[0] - all.first;
            const double weight = shared / (all.total + shared), rest = 1 - weight;
            all.second = all.second * rest + now[1] * weight + apart * apart * (weight * rest);
            all.first += apart * weight;
        }
        all.total += shared;
    }
    return all;
}

}  // namespace cydnn
