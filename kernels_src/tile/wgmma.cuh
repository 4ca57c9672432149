// The tile program of Hopper (sm_90a): a block of three or four warpgroups. The first brings stages of both
// operands to shared memory by TMA, the others multiply them by wgmma.
//
//   WgmmaTile<f16, M, N>        sizes: M x N sums, a step has a line of the depth (MmaElem: 64 elements of 16
//                               bits); Lines: rows of B in a stage
//   WgmmaPanel<f16, Rows, KMajor>   how an operand lies in a stage: its loads and its descriptors
//   WgmmaRing<Tile>             the stages and their barriers; each role keeps one, and goes round with it
//   wgmma_produce, wgmma_sums   the two roles for one tile
//   TileOrder, TileAt           which tile is the index-th, for blocks that take one after the other
//
// A stage is operand A, then operand B, each as rows of a line, 128 bytes, in which 16-byte chunk c of row r
// lies at place c ^ (r & 7) (TMA's swizzle of 128 bytes):
//   k-major    row = m or n, a line of the depth    64 rows of m or n are 8192 bytes
//   mn-major   row = depth (64), 64 of m or n       the next 64 of m or n are 8192 bytes further
// So the part of a warpgroup begins at a multiple of 8192 bytes either way. wgmma takes only types of 16 bits
// mn-major.
//
// Cast: the two blocks of a cluster have tiles of the same columns, one below the other. Each brings half of
// operand B to both. A stage is empty when both blocks have read theirs, and each says so to both.
#pragma once
#include "lib/hopper.cuh"

namespace cydnn {

constexpr int PART = 64 * LINE, SLICE = 16384;   // bytes: 64 rows of an operand; a warpgroup's way out

enum WgmmaHow { BY_GROUP, BY_WARP };             // the way out (tile/wgmma_store.cuh)

// Of m the two or three warpgroups that multiply have 64 each; where there are only 64, each has half of n.
// Most: stages, where something else is in shared memory, too.
template <class Type, int M, int N, int How = BY_GROUP, int Lines = N, int Most = 16> struct WgmmaTile {
    using Elem = MmaElem<Type>;
    using Sum = typename Elem::Sum;
    static constexpr bool by_warp = How == BY_WARP;
    static constexpr int m = M, n = N, k = Elem::line, groups_m = M / 64, groups = groups_m == 3 ? 3 : 2;
    static constexpr int threads = 128 * (1 + groups), registers = groups == 3 ? 152 : 232;
    static constexpr int group_n = groups_m > 1 ? N : N / 2, sums = group_n / 2;
    static constexpr int a_bytes = M * LINE, stage_bytes = (M + Lines) * LINE;
    static constexpr int spare = 1024 + groups * SLICE + 256;            // alignment, way out, barriers
    static constexpr int fitting = (227 * 1024 - spare) / stage_bytes;
    static constexpr int stages = fitting < Most ? fitting : Most;
    static constexpr int boxes = group_n > 64 ? 2 : 1, warp_bytes = SLICE / 4;   // on their way; of a warp
    static_assert(M % 64 == 0 && groups_m <= 3 && stages * 16 <= 256 && stages >= (Most < 4 ? Most : 4));
};

// An axis of kernels that is nothing or a word: given(FUSES).
constexpr WgmmaHow _pairs = BY_WARP;
constexpr DEVICE WgmmaHow given(WgmmaHow how = BY_GROUP) { return how; }

// What a block brings of operand B: all of it for itself, or a half for both blocks of its cluster.
enum WgmmaBrings { ALL, FIRST, SECOND };

// PTX ISA §cp.async.bulk.tensor: to the same place of both blocks, and counted at the same barrier there.
DEVICE void cast_load(void* to, const CUtensorMap& x, const int (&at)[5], uint64_t* b) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4, %5, %6}], [%7], 3;"
                 :: "r"(shared_address(to)), "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]), "r"(shared_address(b)) : "memory");
}
// PTX ISA §mbarrier.arrive, of a block. Whatever its scope, what this thread has read is read; a release of
// the cluster would make its stores visible there, too, which takes 1,500 clocks.
DEVICE void cast_arrive(uint64_t* b, unsigned rank) {
    asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
                 :: "r"(shared_address(b)), "r"(rank) : "memory");
}

template <class Type, int Rows, bool KMajor> struct WgmmaPanel {
    using Elem = MmaElem<Type>;
    static_assert(KMajor || Elem::bytes == 2, "wgmma reads mn-major only types of 16 bits");
    static constexpr unsigned next = Elem::k * (KMajor ? Elem::bytes : LINE) >> 4;   // product's descriptor
    static constexpr int transposed = !KMajor;
    static DEVICE uint64_t at(unsigned address) {
        return swizzled_panel(address, KMajor ? CHUNK : PART, 8 * LINE);
    }

    // The dims of the map: depth and rows (KMajor; a box has those that a block brings) or rows and depth,
    // then three of the batch.
    static DEVICE void load(unsigned char* to, const CUtensorMap& x, int depth, int row,
                            const int (&batch)[3], uint64_t* arrived, WgmmaBrings brings = ALL) {
        const auto load_to = [&](unsigned char* to, int first, int second) {
            const int at[5] = {first, second, batch[0], batch[1], batch[2]};
            if (brings == ALL) tensor_load(to, x, at, arrived);
            else cast_load(to, x, at, arrived);
        };
        const int begins = brings == SECOND ? Rows / 2 : 0;
        if constexpr (KMajor) load_to(to + begins * LINE, depth, row + begins);
        else UNROLL for (int r = 0; r < Rows; r += Elem::line)
            if (brings == ALL || r / (Rows / 2) == (brings == SECOND))
                load_to(to + r / Elem::line * PART, row + r, depth);
    }
};

// full[s]: the bytes of stage s have come. empty[s]: the warpgroups have read it, of a cast those of both
// blocks.
template <class Tile> struct WgmmaRing {
    unsigned char* stages;
    uint64_t *full, *empty;
    int stage = 0;
    unsigned phase = 0, cast = 1;

    DEVICE explicit WgmmaRing(unsigned char* shared) {
        stages = shared + (-shared_address(shared) & 1023);
        full = reinterpret_cast<uint64_t*>(stages + Tile::stages * Tile::stage_bytes + Tile::groups * SLICE);
        empty = full + Tile::stages;
    }
    // One thread, then a barrier of the block. Arrivals: at a stage that has come.
    template <int Arrivals = 1> DEVICE void begin() {
        UNROLL for (int s = 0; s < Tile::stages; ++s)
            barrier_init(full + s, Arrivals), barrier_init(empty + s, Tile::groups * cast);
        barriers_begin();
    }
    // A warpgroup has read a stage. Of a cast its first threads say so, each to a block.
    DEVICE void give(uint64_t* barrier) const {
        if (cast == 1) barrier_arrive(barrier);
        else cast_arrive(barrier, threadIdx.x % 128);
    }
    DEVICE unsigned char* at() const { return stages + stage * Tile::stage_bytes; }
    DEVICE unsigned char* way_out(int group) const {
        return stages + Tile::stages * Tile::stage_bytes + group * SLICE;
    }
    DEVICE void next() {
        if (++stage == Tile::stages) stage = 0, phase ^= 1;
    }
};

// One thread. load(step, stage, full): asks for Tile::stage_bytes.
template <class Tile, class Load> DEVICE void wgmma_produce(WgmmaRing<Tile>& ring, int steps, Load load) {
    NO_UNROLL for (int step = 0; step < steps; ++step, ring.next()) {
        barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);           // a new barrier lets it pass
        barrier_expect(ring.full + ring.stage, Tile::stage_bytes);
        load(step, ring.at(), ring.full + ring.stage);
    }
}

// A warpgroup: d = the product of `steps` >= 1 steps, added to what it has where that is kept. A stage is
// given back when the products of the next one are under way. a, b: where the group's part of an operand lies
// in a stage, and the descriptors of its products. ready(stage): what is done to one that has come.
struct AsItCame { DEVICE void operator()(unsigned char*) const {} };

template <int Products, class Tile, class A, class B, class Ready = AsItCame>
DEVICE void wgmma_steps(typename Tile::Sum (&d)[Tile::sums], WgmmaRing<Tile>& ring, int steps, const A& a,
                        const B& b, bool keep, Ready ready = {}) {
    using Product = Wgmma<typename Tile::Elem::Type, Tile::group_n>;
    const bool speaks = threadIdx.x % 128 < ring.cast;
    uint64_t* read = nullptr;
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        barrier_wait(ring.full + ring.stage, ring.phase);
        ready(ring.at());
        const unsigned stage = shared_address(ring.at());
        const auto a_at = a.at(stage), b_at = b.at(stage);
        wgmma_begin(d);
        UNROLL for (int kk = 0; kk < Products; ++kk)
            Product::template add<A::transposed, B::transposed>(d, a.product(a_at, kk), b.product(b_at, kk),
                                                                keep || step > 0 || kk > 0);
        wgmma_commit();
        if (step > 0) {
            wgmma_wait<1>();
            if (speaks) ring.give(read);
        }
        read = ring.empty + ring.stage;
        ring.next();
    }
    wgmma_wait<0>(d);
    if (speaks) ring.give(read);
}

// The same, of operands in lines; `group` from 0 on.
template <class Panel> struct InLines {
    static constexpr int transposed = Panel::transposed;
    unsigned part;
    DEVICE uint64_t at(unsigned stage) const { return Panel::at(stage + part); }
    DEVICE uint64_t product(uint64_t at, int kk) const { return at + kk * Panel::next; }
};
template <class Tile, class A, class B, class Ready = AsItCame>
DEVICE void wgmma_sums(typename Tile::Sum (&d)[Tile::sums], WgmmaRing<Tile>& ring, int steps, int group,
                       Ready ready = {}) {
    const InLines<A> a = {Tile::groups_m > 1 ? group * PART : 0u};
    const InLines<B> b = {Tile::a_bytes + (Tile::groups_m > 1 ? 0u : group * Tile::group_n / 64 * PART)};
    wgmma_steps<Tile::Elem::products>(d, ring, steps, a, b, false, ready);
}

// Tiles of a matrix go in bands of rows, down and then to the right, so that those that run together
// share operands in the L2 cache; then the matrices of a batch, then the parts of the depth.
struct TileAt { int row, col; unsigned matrix, split; };

// Tiles of a matrix, tiles of a band, rows of a band, rows of the last band, matrices. A division by what is
// not known before takes 100 clocks, and every warp would wait for five of them at each tile.
using TileDivisors = Array<FastDiv, 5>;

template <class Tile> struct TileOrder {
    const TileDivisors& by;
    int m, splits, cast = 1;                             // of a cast a row is as many rows of tiles

    DEVICE unsigned batches() const { return by[4].by; }
    DEVICE unsigned count() const { return by[0].by * batches() * splits; }
    DEVICE TileAt operator[](unsigned index) const {
        unsigned in_matrix, in_band, row, matrix;
        const unsigned rest = by[0].divmod(index, in_matrix);
        const unsigned first = by[1].divmod(in_matrix, in_band) * by[2].by;
        const unsigned tiles = (unsigned(m) + Tile::m - 1) / Tile::m, place = blockIdx.x & (cast - 1);
        const bool is_whole = first + by[2].by <= (tiles + cast - 1) >> (cast - 1);
        const FastDiv rows = is_whole ? by[2] : by[3];
        const unsigned column = rows.divmod(in_band, row), split = by[4].divmod(rest, matrix);
        return {int((first + row) * cast + place) * Tile::m, int(column) * Tile::n, matrix, split};
    }
};

}  // namespace cydnn
