// What one warp of a recurrence in a cluster does: it owns eight units (two times eight of a cell with one
// gate) and all their gates, keeps their weights in registers, as many as go in, and in shared memory, and
// finishes their states without another warp. Every block has the states of all units, in 16-byte chunks:
//
//   states   [buffer][pair][n tile][chunk][row]    pair: 32 units, two k steps of mma.m16n8k16; chunk: eight
//                                                  neighbours of them; row: of eight batch rows, turned by
//                                                  twice the chunk against conflicts of banks
//
// A lane (g = lane / 4, t = lane % 4) reads chunk t of batch row g: b of both k steps. So k 2t, 2t + 1 of a
// k step are units 8t, 8t + 1 of its pair, k 2t + 8, 2t + 9 the next two, and four more in the second step;
// weights are read alike. Rows of an m tile are eight units of one gate, then eight of the next (or the next
// eight units).
//
// Words of two 16-bit numbers lie in two ways: as memory has them, units 2t, 2t + 1 of batch row g, and as
// sums have them, batch rows 2t, 2t + 1 of unit g. turn() makes one of the other.
#pragma once
#include "lib/cluster.cuh"
#include "lib/tma.cuh"
#include "rnn/persist.cuh"

namespace cydnn {

// PTX ISA §movmatrix
DEVICE unsigned turn(unsigned v) {
    unsigned out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(v));
    return out;
}
template <class Elem> DEVICE void halves(unsigned word, float (&v)[2]) {
    const Elem* p = reinterpret_cast<const Elem*>(&word);
    v[0] = to_acc(p[0]), v[1] = to_acc(p[1]);
}
template <class Elem> DEVICE unsigned word_or_zero(bool is_there, const Elem* p) {
    return is_there ? *reinterpret_cast<const unsigned*>(p) : 0;
}
template <class Elem> DEVICE void store_word(Elem* p, unsigned v) { *reinterpret_cast<unsigned*>(p) = v; }

// The chunk of eight neighbours of a row from `first` on, zeros beyond `end`, which is even; wide: all of it
// is there and aligned, or nothing.
template <class Elem>
DEVICE uint4 chunk_of(bool is_there, const Elem* row, int first, int end, bool is_wide) {
    if (is_wide) return is_there && first < end ? *reinterpret_cast<const uint4*>(row + first) : uint4{};
    unsigned v[4];
    UNROLL for (int i = 0; i < 4; ++i)
        v[i] = word_or_zero(is_there && first + 2 * i < end, row + first + 2 * i);
    return {v[0], v[1], v[2], v[3]};
}

// The sums of a warp. Near: pairs whose weights are in registers; those of the others are in `far`.
template <class Elem, class Cell, int NTiles> struct ClusterProduct {
    static constexpr int G = Cell::Gates, Groups = G == 1 ? 2 : 1, Tiles = G == 1 ? 1 : 2,
                         Near = NTiles == 4 ? 4 : 8, Ahead = 4 / NTiles, Chains = 8 / (Tiles * NTiles);
    unsigned near[Near][Tiles][2][4];
    float sums[Chains][Tiles][NTiles][4];
    uint4* far;
    int pairs, lane;

    // Rows `half` 0 … 2 Tiles - 1 of eight: which gate of which units.
    static DEVICE int gate(int half) { return G == 1 ? 0 : half; }
    static DEVICE int group(int half) { return G == 1 ? half : 0; }

    DEVICE ClusterProduct(uint4* far, int pairs) : far(far), pairs(pairs), lane(threadIdx.x % 32) {}

    DEVICE void fragment(unsigned (&a)[2][4], const Elem* weights, int tile, int pair, int unit, int hidden,
                         bool is_wide) const {
        uint4 rows[2];
        UNROLL for (int i = 0; i < 2; ++i) {
            const int half = 2 * tile + i, u = unit + 8 * group(half) + lane / 4;
            const Elem* row = weights + (i64(gate(half)) * hidden + u) * hidden;
            rows[i] = chunk_of(gate(half) < G && u < hidden, row, 32 * pair + lane % 4 * 8, hidden, is_wide);
        }
        a[0][0] = rows[0].x, a[0][1] = rows[1].x, a[0][2] = rows[0].y, a[0][3] = rows[1].y;
        a[1][0] = rows[0].z, a[1][1] = rows[1].z, a[1][2] = rows[0].w, a[1][3] = rows[1].w;
    }
    // Brings the weights of the units from `unit` on to where they stay.
    DEVICE void hold(const Elem* weights, int unit, int hidden) {
        const bool is_wide = hidden % 8 == 0 && reinterpret_cast<uint64_t>(weights) % 16 == 0;
        UNROLL for (int j = 0; j < Near; ++j) UNROLL for (int m = 0; m < Tiles; ++m)
            fragment(near[j][m], weights, m, j, unit, hidden, is_wide);
        NO_UNROLL for (int j = Near; j < pairs; ++j) UNROLL for (int m = 0; m < Tiles; ++m) {
            unsigned a[2][4];
            fragment(a, weights, m, j, unit, hidden, is_wide);
            UNROLL for (int k = 0; k < 2; ++k)
                far[(((j - Near) * Tiles + m) * 2 + k) * 32 + lane] = {a[k][0], a[k][1], a[k][2], a[k][3]};
        }
    }
    struct Chunk { uint4 b[Ahead][NTiles]; };
    // `pairs` is a multiple of Ahead.
    DEVICE void ask(Chunk& c, const uint4* from, int j) const {
        if (j < pairs) UNROLL for (int i = 0; i < Ahead; ++i) UNROLL for (int n = 0; n < NTiles; ++n)
            c.b[i][n] = from[((j + i) * NTiles + n) * 32];
    }
    DEVICE void add(const Chunk& c, int i, int m, int k, const unsigned (&a)[4]) {
        UNROLL for (int n = 0; n < NTiles; ++n) {
            const uint4& v = c.b[i][n];
            const unsigned b[2] = {k ? v.z : v.x, k ? v.w : v.y};
            mma_m16n8k16<Elem>(sums[(2 * i + k) % Chains][m][n], a, b);
        }
    }
    // From one buffer of states.
    DEVICE void run(const uint4* states, const float (&start)[2 * Tiles]) {
        UNROLL for (int c = 0; c < Chains; ++c) UNROLL for (int m = 0; m < Tiles; ++m)
            UNROLL for (int n = 0; n < NTiles; ++n) UNROLL for (int i = 0; i < 4; ++i)
                sums[c][m][n][i] = c ? 0.f : start[2 * m + i / 2];
        const uint4* from = states + lane % 4 * 8 + (lane / 4 + lane % 4 * 2) % 8;
        Chunk now, next;
        ask(now, from, 0);
        UNROLL for (int j = 0; j < Near; j += Ahead) {
            if (j >= pairs) break;
            ask(next, from, j + Ahead);
            UNROLL for (int i = 0; i < Ahead; ++i) UNROLL for (int m = 0; m < Tiles; ++m)
                UNROLL for (int k = 0; k < 2; ++k) add(now, i, m, k, near[j + i][m][k]);
            now = next;
        }
        NO_UNROLL for (int j = Near; j < pairs; j += Ahead) {
            ask(next, from, j + Ahead);
            UNROLL for (int i = 0; i < Ahead; ++i) UNROLL for (int m = 0; m < Tiles; ++m)
                UNROLL for (int k = 0; k < 2; ++k) {
                    const uint4 w = far[(((j + i - Near) * Tiles + m) * 2 + k) * 32 + lane];
                    add(now, i, m, k, {w.x, w.y, w.z, w.w});
                }
            now = next;
        }
    }
    // Of gate g of unit lane / 4 of a group, batch row 2 (lane % 4) + e of an n tile.
    DEVICE float total(int g, int group, int n, int e) const {
        const int half = G == 1 ? group : g;
        float v = sums[0][half / 2][n][half % 2 * 2 + e];
        UNROLL for (int c = 1; c < Chains; ++c) v += sums[c][half / 2][n][half % 2 * 2 + e];
        return v;
    }
};

// Where a lane's chunk goes: to the blocks lane / 8 and lane / 8 + 4 of the cluster.
struct ClusterSend {
    static constexpr int Rounds = 2;
    unsigned states[Rounds], full[Rounds];
    int blocks;
    DEVICE static int rank(int i) { return threadIdx.x % 32 / 8 + 4 * i; }
    DEVICE ClusterSend(const uint4* own, const uint64_t* barriers, int blocks) : blocks(blocks) {
        UNROLL for (int i = 0; i < Rounds; ++i) {
            const int to = min(rank(i), blocks - 1);
            states[i] = cluster_address(shared_address(own), to);
            full[i] = cluster_address(shared_address(barriers), to);
        }
    }
    // The eight chunks of a warp, whose lanes have words of memory's way; `chunk` is the first of eight.
    DEVICE void operator()(unsigned word, int chunk, int barrier) const {
        const int lane = threadIdx.x % 32, row = lane % 8;
        unsigned v[4];
        UNROLL for (int i = 0; i < 4; ++i) v[i] = __shfl_sync(0xFFFFFFFFu, word, row * 4 + i);
        const int at = chunk + (row + chunk / 8 % 4 * 2) % 8;
        UNROLL for (int i = 0; i < Rounds; ++i)
            if (rank(i) < blocks)
                cluster_send(states[i] + 16 * at, {v[0], v[1], v[2], v[3]}, full[i] + 8 * barrier);
    }
};

}  // namespace cydnn
