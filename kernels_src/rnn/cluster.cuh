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
#include "lib/hopper.cuh"
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

// The sums of a warp. Near: pairs whose weights are in registers; those of the others are in `far`. `pairs`
// is a multiple of Four; chunks of Ahead pairs are on their way while others are used.
template <class Elem, class Cell, int NTiles> struct ClusterProduct {
    static constexpr int G = Cell::Gates, Groups = G == 1 ? 2 : 1, Tiles = G == 1 ? 1 : 2, Four = 4;
    static constexpr int Near = 8, Ahead = 2 / NTiles, Chains = 8 / (Tiles * NTiles);
    unsigned near[Near][Tiles][2][4];
    float sums[Chains][Tiles][NTiles][4];
    uint4* far;
    int pairs, lane;
    struct Chunk { uint4 b[Ahead][NTiles]; };

    // Rows `half` 0 … 2 Tiles - 1 of eight: which gate of which units.
    static DEVICE int gate(int half) { return G == 1 ? 0 : half; }
    static DEVICE int group(int half) { return G == 1 ? half : 0; }

    DEVICE ClusterProduct(uint4* far, int pairs) : far(far), pairs(pairs), lane(threadIdx.x % 32) {}

    DEVICE void fragment(unsigned (&a)[2][4], const Elem* weights, int tile, int pair, int unit,
                         int hidden) const {
        uint4 rows[2];
        UNROLL for (int i = 0; i < 2; ++i) {
            // The sums of a fourth gate where there are three are not used. Its weights are some that are no
            // constant and nowhere else: copies and zeros would be made again for every product.
            const int half = 2 * tile + i, none = gate(half) >= G;
            const int u = unit + 8 * group(half) + (lane / 4 ^ none);
            const int in = 32 * pair + lane % 4 * 8;
            const Elem* from = weights + (i64(gate(half) - none) * hidden + u) * hidden + in;
            rows[i] = u < hidden && in < hidden ? *reinterpret_cast<const uint4*>(from) : uint4{};
        }
        a[0][0] = rows[0].x, a[0][1] = rows[1].x, a[0][2] = rows[0].y, a[0][3] = rows[1].y;
        a[1][0] = rows[0].z, a[1][1] = rows[1].z, a[1][2] = rows[0].w, a[1][3] = rows[1].w;
    }
    // Brings the weights of the units from `unit` on to where they stay.
    DEVICE void hold(const Elem* weights, int unit, int hidden) {
        // `far` first: then there are registers for what is on its way
        NO_UNROLL for (int j0 = Near; j0 < pairs; j0 += Four) {
            unsigned a[Four][Tiles][2][4];
            UNROLL for (int j = 0; j < Four; ++j) UNROLL for (int m = 0; m < Tiles; ++m)
                fragment(a[j][m], weights, m, j0 + j, unit, hidden);
            UNROLL for (int j = 0; j < Four; ++j) UNROLL for (int m = 0; m < Tiles; ++m)
                UNROLL for (int k = 0; k < 2; ++k)
                    far[(((j0 - Near + j) * Tiles + m) * 2 + k) * 32 + lane] =
                        {a[j][m][k][0], a[j][m][k][1], a[j][m][k][2], a[j][m][k][3]};
        }
        UNROLL for (int j = 0; j < Near; ++j) UNROLL for (int m = 0; m < Tiles; ++m)
            fragment(near[j][m], weights, m, j, unit, hidden);
    }
    // Pairs j0 + i and those behind.
    DEVICE void ask(Chunk& c, const uint4* from, int j0, int i) const {
        if (i % Four == 0 && j0 + i >= pairs) return;
        UNROLL for (int q = 0; q < Ahead; ++q) UNROLL for (int n = 0; n < NTiles; ++n)
            c.b[q][n] = from[((j0 + i + q) * NTiles + n) * 32];
    }
    DEVICE void add(const uint4 (&b)[NTiles], int i, int m, int k, const unsigned (&a)[4]) {
        UNROLL for (int n = 0; n < NTiles; ++n)
            mma_m16n8<Elem>(sums[(2 * i + k) % Chains][m][n], a,
                               {k ? b[n].z : b[n].x, k ? b[n].w : b[n].y});
    }
    // `from`: this lane's first chunk of a buffer of states.
    DEVICE void run(const uint4* from) {
        UNROLL for (int c = 0; c < Chains; ++c) UNROLL for (int m = 0; m < Tiles; ++m)
            UNROLL for (int n = 0; n < NTiles; ++n)
                UNROLL for (int i = 0; i < 4; ++i) sums[c][m][n][i] = 0;
        Chunk turns[2];
        ask(turns[0], from, 0, 0);
        UNROLL for (int j = 0; j < Near; j += Ahead) {
            if (j && j % Four == 0 && j >= pairs) break;
            ask(turns[(j / Ahead + 1) % 2], from, 0, j + Ahead);
            UNROLL for (int q = 0; q < Ahead; ++q) UNROLL for (int k = 0; k < 2; ++k)
                UNROLL for (int m = 0; m < Tiles; ++m)
                    add(turns[j / Ahead % 2].b[q], j + q, m, k, near[j + q][m][k]);
        }
        NO_UNROLL for (int j0 = Near; j0 < pairs; j0 += Four) UNROLL for (int j = 0; j < Four; j += Ahead) {
            ask(turns[(j / Ahead + 1) % 2], from, j0, j + Ahead);
            UNROLL for (int q = 0; q < Ahead; ++q) UNROLL for (int k = 0; k < 2; ++k)
                UNROLL for (int m = 0; m < Tiles; ++m) {
                    const uint4 w = far[(((j0 - Near + j + q) * Tiles + m) * 2 + k) * 32 + lane];
                    add(turns[j / Ahead % 2].b[q], j + q, m, k, {w.x, w.y, w.z, w.w});
                }
        }
    }
    // Of gate g of unit lane / 4 of a group, batch row 2 (lane % 4) + e of an n tile.
    DEVICE float total(int g, int group, int n, int e) const {
        const int half = G == 1 ? group : g;
        float v[Chains];
        UNROLL for (int c = 0; c < Chains; ++c) v[c] = sums[c][half / 2][n][half % 2 * 2 + e];
        UNROLL for (int apart = Chains / 2; apart; apart /= 2)
            UNROLL for (int c = 0; c < apart; ++c) v[c] += v[c + apart];
        return v[0];
    }
};

// Where the chunks of a warp go, `chunk` being the first of the first group's: a lane has one of eight rows,
// for the blocks lane / 8 and lane / 8 + 4 of the cluster.
template <int Groups> struct ClusterSend {
    static constexpr int Rounds = 2;
    unsigned to[Groups][Rounds], full[Rounds];
    int blocks;
    static DEVICE int rank(int i) { return threadIdx.x % 32 / 8 + 4 * i; }
    DEVICE ClusterSend(const uint4* states, const uint64_t* barriers, int blocks, int chunk)
        : blocks(blocks) {
        UNROLL for (int i = 0; i < Rounds; ++i) {
            const int there = min(rank(i), blocks - 1);
            full[i] = cluster_address(shared_address(barriers), there);
            UNROLL for (int p = 0; p < Groups; ++p) {
                const uint4* first = states + chunk + 8 * p;
                const unsigned row = (threadIdx.x + (chunk / 8 + p) % 4 * 2) % 8;
                to[p][i] = cluster_address(shared_address(first + row), there);
            }
        }
    }
    // `word` is of memory's way; `beyond`: bytes from the first n tile of the first buffer.
    DEVICE void operator()(unsigned word, int group, unsigned beyond, unsigned barrier) const {
        unsigned v[4];
        UNROLL for (int i = 0; i < 4; ++i) v[i] = __shfl_sync(0xFFFFFFFFu, word, threadIdx.x % 8 * 4 + i);
        UNROLL for (int i = 0; i < Rounds; ++i)
            if (rank(i) < blocks)
                cluster_send(to[group][i] + beyond, {v[0], v[1], v[2], v[3]}, full[i] + 8 * barrier);
    }
};

}  // namespace cydnn
