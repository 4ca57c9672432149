// Rows of a norm that come to shared memory by bulk copies ahead of their use, and sums over the blocks of a
// row that nobody waits for at a barrier.
//
//   Ring            places of a row in shared memory: a thread fetches, all others wait for what has come
//   Meeting         what warps leave for each other: parts of a turn's sums, and what is found from them
//   Mail            words that blocks of a row write for each other into memory of the device
//   tell, hear      the work of three warps: the next row, and a block's part to the others; all parts to the
//                   block
//   dscale, dbias   marks: spliced code stores a column's sums
//
// A block has 16 warps at work, one that tells, two that hear, and an idle one. Turn i of a team (the blocks
// of a row) is row team + i * teams. Warps at work add up the row of turn i and store that of turn i - ahead,
// whose sums are found meanwhile; when all have told that, the place of the latter is free. Blocks are all
// resident.
#pragma once
#include "lib/grid.cuh"
#include "lib/hopper.cuh"
#include "row.cuh"

namespace cydnn {

#define CYDNN_MARK(NAME)                                                                                 \
    DEVICE void fuse_##NAME(float& v, unsigned group, unsigned col) {                                    \
        asm volatile("// @fuse." #NAME " v=%0 group=%1 col=%2;" : "+f"(v) : "r"(group), "r"(col));       \
    }
CYDNN_MARK(dscale)
CYDNN_MARK(dbias)
#undef CYDNN_MARK

using u64 = unsigned long long;

constexpr int WARPS = 16, THREADS = 32 * WARPS, BLOCK = THREADS + 128;
constexpr int TELLS = WARPS, HEARS = WARPS + 1;                      // warps
constexpr int MOST_AHEAD = 7, TURNS = MOST_AHEAD + 1, MOST_STAGES = 16;
// A place is written again MAILS turns later. Its writer has heard of turn i + MAILS - ahead, which was told
// when all had heard of turn i + MAILS - 2 ahead, and of those before.
constexpr int MAILS = 2 * MOST_AHEAD + 2;

// Eight neighbours as words: single elements of 16 bits that are loaded or not would be moved one by one.
template <class Elem> struct alignas(16) Eight {
    static constexpr int words = 2 * sizeof(Elem);
    unsigned w[words];
    DEVICE void get(float (&v)[8]) const {
        UNROLL for (int i = 0; i < words; ++i) spread(v, i, Elem{});
    }
    DEVICE void spread(float (&v)[8], int i, f32) const { v[i] = __uint_as_float(w[i]); }
    DEVICE void spread(float (&v)[8], int i, bf16) const {
        v[2 * i] = __uint_as_float(w[i] << 16), v[2 * i + 1] = __uint_as_float(w[i] & 0xFFFF0000);
    }
    DEVICE void spread(float (&v)[8], int i, f16) const {
        const float2 two = __half22float2(*reinterpret_cast<const __half2*>(w + i));
        v[2 * i] = two.x, v[2 * i + 1] = two.y;
    }
};

// A place of a ring, and the parity of its barrier.
struct Place {
    int at = 0;
    unsigned phase = 0;
    DEVICE void next(int size) { if (++at == size) at = 0, phase ^= 1; }
};

// PTX ISA §cp.async.bulk: a multiple of 16 bytes.
DEVICE void bulk_load(void* to, const void* from, int bytes, uint64_t* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                    "r"(shared_address(b)) : "memory");
}

// Barriers by their addresses: a pointer would be turned into one at each use.
// PTX ISA §mbarrier.try_wait, §mbarrier.arrive, §mbarrier.expect_tx
DEVICE void wait_at(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
DEVICE void arrive_at(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
DEVICE void expect_at(unsigned barrier, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

// Known: what is found of a row; 16 bytes at most. statistics: of the row in a stage.
template <class Known> struct Meeting {
    uint64_t come[MOST_STAGES], told[TURNS], known[TURNS], begun;
    float2 parts[TURNS][WARPS], statistics[MOST_STAGES];
    alignas(16) Known found[TURNS];

    // What is known of a turn is told by who found it; where blocks are joined, by who read the parts, too.
    DEVICE void start(int stages, int joined) {
        if (threadIdx.x == 0) {
            NO_UNROLL for (int s = 0; s < stages; ++s) barrier_init(come + s, 1);
            UNROLL for (int t = 0; t < TURNS; ++t)
                barrier_init(told + t, WARPS), barrier_init(known + t, 1 + (joined > 1));
            barrier_init(&begun, 1);
            barriers_begin();
        }
        __syncthreads();
    }
    DEVICE void wait_told(unsigned turn) { barrier_wait(told + turn % TURNS, turn / TURNS & 1); }
};

// Places for `count` columns of each of Tensors rows.
template <class Elem, int Tensors> struct Ring {
    Elem* slots;
    int stages, width, count;
    DEVICE Elem* slot(int stage, int tensor) const { return slots + (stage * Tensors + tensor) * width; }
    DEVICE Eight<Elem> get(int stage, int tensor, int col) const {
        return *reinterpret_cast<const Eight<Elem>*>(slot(stage, tensor) + col);
    }
    // One thread, which arrives at the barrier later: `from` is where the columns of each tensor begin.
    DEVICE void fetch(const Elem* const (&from)[Tensors], int stage, uint64_t* come) const {
        const int bytes = count * int(sizeof(Elem));
        expect_at(shared_address(come + stage), Tensors * bytes);
        UNROLL for (int t = 0; t < Tensors; ++t) bulk_load(slot(stage, t), from[t], bytes, come + stage);
    }
};

// A barrier of the warps at work, and one of all of the grid's. PTX ISA §bar
DEVICE void at_work() { asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory"); }
DEVICE void at_work_grid() {
    at_work();
    if (threadIdx.x == 0) grid_hear(grid_tell());
    at_work();
}

// Columns of a thread at work: accesses of eight, side by side over the threads.
DEVICE int column_of(int k) { return (k * THREADS + int(threadIdx.x)) * 8; }

// words[MAILS][joined][2] of a team: a turn's number and a float in each, so that a word comes as a whole.
struct Mail {
    u64* words;
    int joined;
    DEVICE u64* place(unsigned turn, int of) const { return words + (turn % MAILS * joined + of) * 2; }
    // One warp; behind a barrier of the grid no word of an earlier launch is left.
    DEVICE void clear(int own) const {
        const int lane = threadIdx.x % 32;
        if (lane < 2 * MAILS) place(lane / 2, own)[lane % 2] = 0;
        __syncwarp();
        if (lane == 0) grid_hear(grid_tell());
        __syncwarp();
    }
    // PTX ISA §ld, §st (.relaxed.gpu)
    DEVICE void put(int turn, int own, float2 v) const {
        const float two[2] = {v.x, v.y};
        UNROLL for (int w = 0; w < 2; ++w)
            asm volatile("st.relaxed.gpu.global.b64 [%0], %1;"
                         :: "l"(__cvta_generic_to_global(place(turn, own) + w)),
                            "l"(u64(turn + 1) << 32 | __float_as_uint(two[w])) : "memory");
    }
    DEVICE float2 get(int turn, int of) const {
        u64 word[2];
        do UNROLL for (int w = 0; w < 2; ++w)
            asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
                         : "=l"(word[w]) : "l"(__cvta_generic_to_global(place(turn, of) + w)) : "memory");
        while (unsigned(word[0] >> 32) != turn + 1 || unsigned(word[1] >> 32) != turn + 1);
        return {__uint_as_float(unsigned(word[0])), __uint_as_float(unsigned(word[1]))};
    }
};

// Sums: of_warp(w, v) and of_block(b, v) give the part of a warp and of a block from its two floats; merge
// joins two; shown gives a part's floats. done(turn, part): all of a row, lane 0's part counts. free(turn):
// the place of a turn is free.
template <class Known, class Sums, class Free, class Done>
DEVICE void tell(Meeting<Known>& met, const Mail& mail, int own, int turns, int ahead, const Sums& sums,
                 Free free, Done done) {
    const int lane = threadIdx.x % 32;
    if (mail.joined > 1) {
        mail.clear(own);
        if (lane == 0) barrier_arrive(&met.begun);
    }
    NO_UNROLL for (unsigned turn = 0; turn < unsigned(turns); ++turn) {
        met.wait_told(turn);
        auto part = sums.of_warp(lane, lane < WARPS ? met.parts[turn % TURNS][lane] : float2{0, 0});
        part = warp_reduce(part, [&](const auto& a, const auto& b) { return sums.merge(a, b); });
        if (mail.joined == 1) done(turn, part);
        else if (lane == 0) mail.put(turn, own, sums.shown(part)), barrier_arrive(met.known + turn % TURNS);
        if (turn >= unsigned(ahead)) free(turn - ahead);
        __syncwarp();
    }
}
// Two warps, each every other turn.
template <class Known, class Sums, class Done>
DEVICE void hear(Meeting<Known>& met, const Mail& mail, int turns, const Sums& sums, Done done) {
    const int lane = threadIdx.x % 32;
    if (mail.joined == 1 || threadIdx.x / 32 >= HEARS + 2) return;
    barrier_wait(&met.begun, 0);
    NO_UNROLL for (int turn = threadIdx.x / 32 - HEARS; turn < turns; turn += 2) {
        met.wait_told(turn);
        auto all = sums.of_block(-1, float2{0, 0});
        NO_UNROLL for (int b = lane; b < mail.joined; b += 32)
            all = sums.merge(all, sums.of_block(b, mail.get(turn, b)));
        __syncwarp();
        done(turn, warp_reduce(all, [&](const auto& a, const auto& b) { return sums.merge(a, b); }));
    }
}

}  // namespace cydnn
