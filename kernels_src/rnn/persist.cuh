// What one block of a persistent recurrence does: it owns some units of one direction and the batch rows of
// one group, keeps the weights of its units in shared memory as far as they go in (the rest comes through a
// ring, ahead of its use), and steps with the other blocks of its group: product, gates, exchange.
//
// Everything lies in the order of mma fragments (lib/mma.cuh): m16n8k16 of 16-bit types, m16n8k8 of f32, four
// words a lane:
//   weights   [direction][block][k step][m tile][lane]       m tile: 16 units of one gate; row g is unit 2g,
//                                                            row g + 8 is unit 2g + 1
//   exchange  [ring][direction][group][k step][pair][lane]   two n tiles of 8 batch rows: b of the first, b
//                                                            of the second
// The 8 warps take every eighth k step, and their sums are added in shared memory in a fixed order. An item
// is what a thread finishes at once: two neighbouring units of one batch row.
//
// A team is a cluster of blocks that have the units of all of them and share the depth: of eight k steps at a
// time each has its turn. Then a block reads less of the exchange, and sums of the units of others go to
// these through distributed shared memory, in a fixed order again. Weights lie as those of one block with
// all units.
//
// Exchange: a word is EMPTY until its step's value is there, and readers ask until it is. A block that has
// read all of step s (or has the sums of its team) knows that all others have read step s - 1, and empties
// its words of that. Of five areas
// in turn, those words are asked for again behind step s + 3; the fences behind steps s (of the writer) and
// s + 2 (of the reader, who has seen what was written behind the first) see to it that the emptying comes
// first.
#pragma once
#include "lib/cluster.cuh"
#include "lib/mma.cuh"
#include "rnn/cell.cuh"

namespace cydnn {

constexpr unsigned EMPTY = 0xFFFFFFFF;           // no number is stored as this: NaN is 0x7FFF…
constexpr int RING = 5;

// The words of the axis FORM of rnn_persist.cu.
namespace persist { constexpr bool IsWave = false; }
namespace wave { constexpr bool IsWave = true; }

// PTX ISA §ld, §st (.relaxed.gpu): pass by L1.
DEVICE uint4 load_relaxed(bool is_there, const uint4* p) {
    uint4 v = {0, 0, 0, 0};
    asm volatile("{\n\t.reg .pred %%q;\n\tsetp.ne.b32 %%q, %5, 0;\n\t"
                 "@%%q ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];\n\t}"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(__cvta_generic_to_global(p)), "r"(int(is_there)) : "memory");
    return v;
}
DEVICE void store_relaxed(unsigned* p, unsigned v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(v) : "memory");
}
DEVICE bool is_empty(const uint4& v) {
    return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY;
}

// ---- 16-bit types, and f32 as the sum of two tf32 ----

template <class Elem> struct Fragment {
    static constexpr int Depth = 16;             // of a k step
    // The word of element (k, n) of a B operand of `pairs` pairs; k is even, its neighbour is in the word.
    static DEVICE i64 word(int k, int n, int pairs) {
        return (i64(k / 16 * pairs + n / 16) * 32 + n % 8 * 4 + k % 8 / 2) * 4 + n / 8 % 2 * 2 + k % 16 / 8;
    }
    static DEVICE unsigned two(float a, float b) {
        const float in[2] = {a, b};
        const auto v = Vec<Elem, 2>::of(in);
        return *reinterpret_cast<const unsigned*>(&v);
    }
    static DEVICE void put(unsigned* to, int k, int n, int pairs, float a, float b) {
        const unsigned v = two(a, b);
        store_relaxed(to + word(k, n, pairs), v == EMPTY ? 0x7FFF7FFFu : v);
    }
    static DEVICE void clear(unsigned* to, int k, int n, int pairs) {
        store_relaxed(to + word(k, n, pairs), EMPTY);
    }
    struct Left { unsigned a[4]; };
    struct Right { unsigned b[2]; };
    static DEVICE Left left(const uint4& w) { return {{w.x, w.y, w.z, w.w}}; }
    static DEVICE Right right(unsigned x, unsigned y) { return {{x, y}}; }
    static DEVICE void product(float (&d)[4], const Left& a, const Right& b) {
        mma_m16n8<Elem>(d, a.a, b.b);
    }
};

// PTX ISA §Matrix Fragments for mma.m16n8k8 (.tf32): a[0], a[1] are rows g, g + 8 at k t, a[2], a[3] at
// t + 4; b[0] is k t, b[1] k t + 4 of column g.
DEVICE void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <> struct Fragment<f32> {
    static constexpr int Depth = 8;
    static DEVICE i64 word(int k, int n, int pairs) {
        return (i64(k / 8 * pairs + n / 16) * 32 + n % 8 * 4 + k % 4) * 4 + n / 8 % 2 * 2 + k % 8 / 4;
    }
    static DEVICE void put_one(unsigned* to, float v) {
        store_relaxed(to, __float_as_uint(v) == EMPTY ? 0x7FFFFFFFu : __float_as_uint(v));
    }
    static DEVICE void put(unsigned* to, int k, int n, int pairs, float a, float b) {
        put_one(to + word(k, n, pairs), a), put_one(to + word(k + 1, n, pairs), b);
    }
    static DEVICE void clear(unsigned* to, int k, int n, int pairs) {
        store_relaxed(to + word(k, n, pairs), EMPTY), store_relaxed(to + word(k + 1, n, pairs), EMPTY);
    }
    // To nearest with 10 bits of fraction, and what that leaves alike: 2^-23 of the value is lost. Both are
    // cut instead where rounding would give infinity, of infinities and NaN (0x7FFFFFFF would become -0).
    static DEVICE void split(unsigned word, unsigned& high, unsigned& low) {
        constexpr unsigned Kept = 0xFFFFE000;
        const unsigned half = (word & 0x7FFFFFFF) < 0x7F7FF000 ? 0x1000 : 0;
        high = word + half & Kept;
        const unsigned rest = __float_as_uint(__uint_as_float(word) - __uint_as_float(high));
        low = high == word ? 0 : rest + half & Kept;
    }
    struct Left { unsigned high[4], low[4]; };
    struct Right { unsigned high[2], low[2]; };
    static DEVICE Left left(const uint4& w) {
        Left v;
        const unsigned words[4] = {w.x, w.y, w.z, w.w};
        UNROLL for (int i = 0; i < 4; ++i) split(words[i], v.high[i], v.low[i]);
        return v;
    }
    static DEVICE Right right(unsigned x, unsigned y) {
        Right v;
        split(x, v.high[0], v.low[0]), split(y, v.high[1], v.low[1]);
        return v;
    }
    static DEVICE void product(float (&d)[4], const Left& a, const Right& b) {
        mma_m16n8k8_tf32(d, a.low, b.high);
        mma_m16n8k8_tf32(d, a.high, b.low);
        mma_m16n8k8_tf32(d, a.high, b.high);
    }
};

// ---- The product of one pass ----

// The k step that is number i of a warp of a block of a team.
template <int Team> DEVICE int k_step(int i, int warp) {
    return (Team == 1 ? i : i * Team + int(blockIdx.x % Team)) * 8 + warp;
}

// MTiles m tiles by NTiles n tiles. `weights`: a matrix of this team; of the k steps of this block the first
// `resident` (a multiple of 8, or all) are in `held`, the others come through this warp's part of `ring`,
// Stages k steps deep.
template <class Elem, int MTiles, int NTiles, int Team> struct Recurrence {
    using Piece = Fragment<Elem>;
    static constexpr int Warps = 8, Slots = 4, Pairs = NTiles / 2;
    static constexpr int Steps = NTiles == 8 ? 1 : MTiles == 6 || sizeof(Elem) == 4 ? 2 : 16 / NTiles,
                         Stages = MTiles > 4 ? 3 : 4;
    const uint4 *held, *weights;
    int resident;
    uint4* ring;
    int k_steps, is_late, warp, lane;
    struct Chunk { uint4 b[Steps][Pairs]; };
    Chunk now;
    float sums[MTiles][NTiles][4];

    DEVICE Recurrence(const uint4* held, const uint4* weights, int resident, uint4* rings, int k_steps,
                       int is_late)
        : held(held), weights(weights), resident(resident), k_steps(k_steps), is_late(is_late),
          warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
        ring = rings + warp * Stages * MTiles * 32;
    }
    // The next product is with another matrix.
    DEVICE void turn_to(const uint4* other_held, const uint4* other, int other_resident) {
        held = other_held, weights = other, resident = other_resident;
    }
    // Asks for streamed k step number i of this warp.
    DEVICE void fetch(int i) {
        const int k = k_step<Team>(resident / Warps + i, warp);
        if (k < k_steps) UNROLL for (int m = 0; m < MTiles; ++m)
            cp_async<16>(shared_address(ring + (i % Stages * MTiles + m) * 32 + lane),
                         weights + (i64(k) * MTiles + m) * 32 + lane, 16);
        cp_async_commit();
    }
    // The first streamed k steps; may come before the states are there.
    DEVICE void begin() {
        if (resident * Team < k_steps) NO_UNROLL for (int i = 0; i < Stages - 1; ++i) fetch(i);
    }
    DEVICE void ask(Chunk& c, const uint4* exchange, int pairs, int first_pair, int i0) const {
        UNROLL for (int i = 0; i < Steps; ++i) UNROLL for (int p = 0; p < Pairs; ++p) {
            const int k = k_step<Team>(i0 + i, warp), pair = first_pair + p;
            c.b[i][p] = load_relaxed(k < k_steps && pair < pairs, exchange + (k * pairs + pair) * 32 + lane);
        }
    }
    static DEVICE bool has_empty(const Chunk& c) {
        bool found = false;
        UNROLL for (int i = 0; i < Steps; ++i)
            UNROLL for (int p = 0; p < Pairs; ++p) found |= is_empty(c.b[i][p]);
        return found;
    }
    DEVICE void add(const Chunk& c, int i0, int& streamed) {
        UNROLL for (int i = 0; i < Steps; ++i) {
            const int mine = warp + (i0 + i) * Warps;
            if (k_step<Team>(i0 + i, warp) >= k_steps) break;
            const uint4* from = held + i64(mine) * MTiles * 32 + lane;
            if (mine >= resident) {
                fetch(streamed + Stages - 1);
                cp_async_wait<Stages - 1>();
                from = ring + streamed++ % Stages * MTiles * 32 + lane;
            }
            typename Piece::Right right[NTiles];
            UNROLL for (int p = 0; p < Pairs; ++p) {
                right[2 * p] = Piece::right(c.b[i][p].x, c.b[i][p].y);
                right[2 * p + 1] = Piece::right(c.b[i][p].z, c.b[i][p].w);
            }
            UNROLL for (int m = 0; m < MTiles; ++m) {
                const auto left = Piece::left(from[m * 32]);
                UNROLL for (int n = 0; n < NTiles; ++n) Piece::product(sums[m][n], left, right[n]);
            }
        }
    }
    // What run begins with, asked for as early as may be; late: not before a part is there, as asking in vain
    // costs bandwidth.
    DEVICE void early(const uint4* exchange, int pairs, int first_pair) {
        if (!is_late) ask(now, exchange, pairs, first_pair, 0);
    }
    // One chunk is on its way while the other is used.
    DEVICE void run(const uint4* exchange, int pairs, int first_pair) {
        UNROLL for (int m = 0; m < MTiles; ++m)
            UNROLL for (int n = 0; n < NTiles; ++n) UNROLL for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
        int streamed = 0;
        if (is_late) {
            uint4 one;
            do {
                const int k = k_step<Team>(0, warp);
                one = load_relaxed(k < k_steps, exchange + (k * pairs + first_pair) * 32 + lane);
            } while (__any_sync(0xFFFFFFFFu, is_empty(one)));
            ask(now, exchange, pairs, first_pair, 0);
        }
        Chunk next;
        NO_UNROLL for (int i0 = 0; k_step<Team>(i0, warp) < k_steps; i0 += Steps) {
            ask(next, exchange, pairs, first_pair, i0 + Steps);
            while (__any_sync(0xFFFFFFFFu, has_empty(now))) ask(now, exchange, pairs, first_pair, i0);
            add(now, i0, streamed);
            now = next;
        }
    }

    // The sums of all warps, in four slots of `parts`: total(parts, m, n, …) adds them. Pairs of units of a
    // batch row are neighbours; rows are 10 pairs apart, against conflicts of banks.
    static constexpr int Tile = 80;              // float2 of an m tile by an n tile
    DEVICE void gather(float2* parts) {
        float2* mine = parts + warp % Slots * (MTiles * NTiles * Tile) + lane % 4 * 20 + lane / 4;
        __syncthreads();                         // those of the pass before have been read
        if (warp >= Slots)
            UNROLL for (int m = 0; m < MTiles; ++m) UNROLL for (int n = 0; n < NTiles; ++n)
                UNROLL for (int i = 0; i < 2; ++i)
                    mine[(m * NTiles + n) * Tile + 10 * i] = {sums[m][n][i], sums[m][n][2 + i]};
        __syncthreads();
        if (warp < Slots)
            UNROLL for (int m = 0; m < MTiles; ++m) UNROLL for (int n = 0; n < NTiles; ++n)
                UNROLL for (int i = 0; i < 2; ++i) {
                    float2& v = mine[(m * NTiles + n) * Tile + 10 * i];
                    v = {v.x + sums[m][n][i], v.y + sums[m][n][2 + i]};
                }
        __syncthreads();
    }
    // Of units 2 `pair` and the next of an m tile, batch row n of the pass.
    DEVICE void total(const float2* parts, int m, int pair, int n, float (&out)[2]) const {
        out[0] = out[1] = 0;
        UNROLL for (int s = 0; s < Slots; ++s) {
            const float2 v = parts[((s * MTiles + m) * NTiles + n / 8) * Tile + n % 8 * 10 + pair];
            out[0] += v.x, out[1] += v.y;
        }
    }
};

// Item number `i` of a block's pass, of 1 or 2 tiles: units `unit`, `unit + 1` (of `tile`, pair `pair`),
// batch row `n`.
struct Item {
    int pair, tile, n;
    DEVICE Item(unsigned i, int tiles) : pair(i & 7), tile(i >> 3 & (tiles - 1)), n(i >> (2 + tiles)) {}
    DEVICE int unit(int slot, int tiles) const { return (slot * tiles + tile) * 16 + 2 * pair; }
};

// The sums that blocks of a team have of each other's units, behind the parts: [turn][block][item]. There are
// two turns: who has come to the barrier of a turn has read the one before.
template <int Tiles, int NTiles, int Team> struct Teammates {
    static constexpr int items = Tiles * NTiles * 64;
    float2* inbox;
    int turn = 0;
    DEVICE explicit Teammates(float2* inbox) : inbox(inbox) {
        if constexpr (Team > 1) cluster_arrive(), cluster_wait();    // all are there
    }
    // Behind the product's gather: gives others their sums, and has theirs.
    template <class Sums> DEVICE void meet(const Sums& product, const float2* parts) {
        if constexpr (Team > 1) {
            const int rank = blockIdx.x % Team;
            turn ^= 1;
            UNROLL for (int o = 1; o < Team; ++o) {
                const int there = (rank + o) % Team, slot = turn * (Team - 1) + Team - 1 - o;
                const unsigned to = cluster_address(shared_address(inbox + slot * items), there);
                NO_UNROLL for (int i = threadIdx.x; i < items; i += 256) {
                    const Item item(i, Tiles);
                    float v[2];
                    product.total(parts, there * Tiles + item.tile, item.pair, item.n, v);
                    cluster_write2(to + 8 * i, v[0], v[1]);
                }
            }
            cluster_arrive();
            cluster_wait();
        }
    }
    // The sums of an item of this block.
    template <class Sums>
    DEVICE void total(const Sums& product, const float2* parts, int i, const Item& item,
                      float (&out)[2]) const {
        product.total(parts, (Team > 1 ? blockIdx.x % Team * Tiles : 0) + item.tile, item.pair, item.n, out);
        UNROLL for (int o = 0; o < Team - 1; ++o) {
            const float2 v = inbox[(turn * (Team - 1) + o) * items + i];
            out[0] += v.x, out[1] += v.y;
        }
    }
};

// Two neighbours in memory.
template <class Elem> DEVICE void load_pair(const Elem* p, float& a, float& b) {
    const auto v = Vec<Elem, 2>::load(p);
    a = to_acc(v[0]), b = to_acc(v[1]);
}
template <class Elem> DEVICE void pair_or_zero(bool is_there, const Elem* p, float (&v)[2]) {
    v[0] = v[1] = 0;
    if (is_there) load_pair(p, v[0], v[1]);
}
template <class Elem> DEVICE void store_pair(Elem* p, const float (&v)[2]) { Vec<Elem, 2>::of(v).store(p); }

// Two neighbours that are used much later: what is made of them is not moved up to the load.
template <class Elem> struct Later {
    typename Word<2 * int(sizeof(Elem))>::type raw;
    DEVICE void load(bool is_there, const Elem* p) {
        raw = {};
        if (is_there) raw = *reinterpret_cast<const decltype(raw)*>(p);
    }
    DEVICE void wait();
    DEVICE void get(float (&v)[2]) {
        wait();
        const Elem* p = reinterpret_cast<const Elem*>(&raw);
        v[0] = to_acc(p[0]), v[1] = to_acc(p[1]);
    }
    // What these factors leave of two values; nothing where they are 0, whatever the values are.
    DEVICE void mask(const float (&v)[2], float (&left)[2]) {
        float factor[2];
        get(factor);
        UNROLL for (int e = 0; e < 2; ++e) left[e] = factor[e] == 0 ? 0.f : v[e] * factor[e];
    }
};
template <> DEVICE void Later<f16>::wait() { asm volatile("" : "+r"(raw)); }
template <> DEVICE void Later<bf16>::wait() { asm volatile("" : "+r"(raw)); }
template <> DEVICE void Later<f32>::wait() { asm volatile("" : "+r"(raw.x), "+r"(raw.y)); }

// What a block finishes: `items` a pass, of which a thread has every 256th, all of them of units j and j + 1.
// What it carries from step to step is two pairs an item: h or its gradient, c or its gradient.
template <int Tiles, int NTiles> struct Share {
    static constexpr int items = Tiles * NTiles * 64;
    int row0, last_row, passes, j, hidden;
    DEVICE Share(int group_rows, int batch, int hidden)
        : row0(blockIdx.y * group_rows), last_row(min(batch, row0 + group_rows)),
          passes(ceil_div(group_rows, 8 * NTiles)), j(Item(threadIdx.x, Tiles).unit(blockIdx.x, Tiles)),
          hidden(hidden) {}
    DEVICE int row(int i) const { return row0 + i / items * 8 * NTiles + Item(i % items, Tiles).n; }
    template <class Elem>
    DEVICE void begin(float4* states, const Elem* h, i64 h_row, const Elem* c, i64 c_row) const {
        NO_UNROLL for (int i = threadIdx.x; i < items * passes; i += 256) {
            const int b = row(i);
            float p[2], q[2];
            pair_or_zero(h && b < last_row && j < hidden, h + b * h_row + j, p);
            pair_or_zero(c && b < last_row && j < hidden, c + b * c_row + j, q);
            states[i] = {p[0], p[1], q[0], q[1]};
        }
    }
    template <class Elem>
    DEVICE void end(const float4* states, Elem* h, i64 h_row, Elem* c, i64 c_row) const {
        NO_UNROLL for (int i = threadIdx.x; i < items * passes && j < hidden; i += 256) {
            const int b = row(i);
            if (b >= last_row) continue;
            const float p[2] = {states[i].x, states[i].y}, q[2] = {states[i].z, states[i].w};
            if (h) store_pair(h + b * h_row + j, p);
            if (c) store_pair(c + b * c_row + j, q);
        }
    }
};

// The first `resident` k steps that a block has of a matrix of fragments, MTiles m tiles each, are on their
// way to shared memory, until hold_all().
template <int MTiles, int Team>
DEVICE void hold(uint4* held, const uint4* weights, int resident, int k_steps) {
    constexpr int Each = MTiles * 32;
    NO_UNROLL for (int i = threadIdx.x; i < resident * Each; i += 256) {
        const int k = Team == 1 ? 0 : k_step<Team>(i / (8 * Each), i / Each % 8);
        if (k < k_steps)
            cp_async<16>(shared_address(held + i), weights + (Team == 1 ? i : k * Each + i % Each), 16);
    }
}
DEVICE void hold_all() { cp_async_commit(), cp_async_wait<0>(), __syncthreads(); }

}  // namespace cydnn
