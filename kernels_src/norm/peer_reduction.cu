/*@kernel
name   = "peer_reduction_{MODE}"
about  = "Two statistics of each channel of all GPUs, by mailboxes that each of them has in its memory."
MODE   = ["moments", "sums"]
params = ["const float* a", "const float* b", "float* a_all", "float* b_all", "float* count", "int channels",
          "int peers", "int rank", "int share", "int64_t patience", "Array<u64*, 32> boxes"]
block  = [128, 1, 1]
grid   = ["ceil_div(channels, 128)", 1, 1]
needs  = ["1 <= channels < 2**31 - 128", "1 <= peers <= 32", "0 <= rank < peers", "1 <= share"]
problems = [
    """peer_reduction a=1x150:f32 b=1x150:f32 peers=1800:f32+1800:f32+1800:f32 mode={MODE} rank=1 \
       share=12"""]
@*/
// A message is one word: a number in its lower half, how many numbers it is of in the upper one, so that it
// is never zero and comes as a whole. A mailbox has a place for each peer, statistic and channel; a word
// waits in its place until the owner takes it, and then the place is zero for the next one: calls need no
// memset in between, and a peer may be ahead by one. No block waits for another one of its own grid.
#include "lib/types.cuh"

constexpr int MODE_moments = 0, MODE_sums = 1;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

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

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const float* a, const float* b, float* a_all, float* b_all, float* count, int channels, int peers,
    int rank, int share, i64 patience, Array<u64*, 32> boxes) {
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= channels) return;
    const float own[2] = {a[c], b[c]};
    NO_UNROLL for (int p = 0; p < peers; ++p) {
        if (p == rank) continue;
        UNROLL for (int w = 0; w < 2; ++w) {
            u64* place = boxes[p] + i64(2 * rank + w) * channels + c;
            awaited(place, false, patience);
            put(place, u64(share) << 32 | __float_as_uint(own[w]));
        }
    }
    double first = 0, second = 0, total = 0;
    NO_UNROLL for (int p = 0; p < peers; ++p) {
        float now[2] = {own[0], own[1]};
        double shared = share;
        if (p != rank)
            UNROLL for (int w = 0; w < 2; ++w) {
                u64* place = boxes[rank] + i64(2 * p + w) * channels + c;
                const u64 word = awaited(place, true, patience);
                put(place, 0);
                now[w] = __uint_as_float(unsigned(word)), shared = unsigned(word >> 32);
            }
        if constexpr (JOIN(MODE_, MODE) == MODE_sums) {
            first += now[0], second += now[1];
        } else {
            const double apart = now[0] - first, weight = shared / (total + shared);
            second = second * (1 - weight) + now[1] * weight + apart * apart * (weight * (1 - weight));
            first += apart * weight;
        }
        total += shared;
    }
    a_all[c] = float(first), b_all[c] = float(second), count[c] = float(total);
}
