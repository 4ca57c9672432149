// The tile program of Hopper where columns stay: a block keeps N columns of operand B, their whole depth, in
// shared memory. Four warpgroups take 64 rows of A after 64 rows, each from a ring of its own that a warp of
// its own fills, and wait for nobody: while some multiply, others change their sums and store them. Half as
// much comes to shared memory as for tiles of wgmma.cuh, and each scheduler has four warps where what is
// fused takes longer than the products.
//
//   KeptTile<f16, N>  64 x N sums of a warpgroup; a stage has a line of the depth of 64 rows, as in wgmma.cuh
//   KeptRing          what stays; the stages of a warpgroup and their barriers, its way out
//   store_kept        the way out of changed sums
//   wgmma_kept        the program
//
// A Source as in wgmma_blocks.cuh, but load() in parts: rows(to, full), columns_of(to, full), next().
#pragma once
#include "tile/wgmma_blocks.cuh"

namespace cydnn {

constexpr int KEPT_GROUPS = 4;

template <class Type, int N> struct KeptTile {
    using Elem = MmaElem<Type>;
    using Sum = typename Elem::Sum;
    static constexpr bool by_warp = true;
    static constexpr int m = 64, n = N, k = Elem::line, group_n = N, sums = N / 2;
    static constexpr int stage_bytes = PART, kept_bytes = N * LINE;
    static constexpr int boxes = 1, warp_bytes = PART / 4;
};

// arrived: what stays has come. full, empty: as in WgmmaRing.
template <class Tile> struct KeptRing {
    unsigned char *kept, *stages, *out;
    uint64_t *arrived, *full, *empty;
    int count, stage = 0;
    unsigned phase = 0;

    DEVICE KeptRing(unsigned char* shared, int steps, int count, int group) : count(count) {
        kept = shared + (-shared_address(shared) & 1023);
        unsigned char* outs = kept + steps * Tile::kept_bytes;
        out = outs + group * PART;
        stages = outs + KEPT_GROUPS * PART + group * count * Tile::stage_bytes;
        arrived = reinterpret_cast<uint64_t*>(outs + KEPT_GROUPS * (PART + count * Tile::stage_bytes));
        full = arrived + 1 + 2 * group * count, empty = full + count;
    }
    // One thread, for the first group; then a barrier of the block.
    DEVICE void begin() {
        NO_UNROLL for (int s = 0; s < 1 + 2 * KEPT_GROUPS * count; ++s) barrier_init(arrived + s, 1);
        barriers_begin();
    }
    DEVICE unsigned char* at() const { return stages + stage * Tile::stage_bytes; }
    DEVICE void next() {
        if (++stage == count) stage = 0, phase ^= 1;
    }
};

// A warpgroup: d = 64 rows from its ring times what stays. ptxas knows that the first product begins the
// sums: between two tiles their registers are free for what is fused, of which a warp then has several
// elements on their way.
template <class Tile, class A, class B>
DEVICE void kept_sums(typename Tile::Sum (&d)[Tile::sums], KeptRing<Tile>& ring, int steps) {
    const bool speaks = threadIdx.x % 128 == 0;
    unsigned from = shared_address(ring.kept);
    uint64_t* read = nullptr;
    const auto multiply = [&](auto first) {
        barrier_wait(ring.full + ring.stage, ring.phase);
        const uint64_t a = A::at(shared_address(ring.at())), b = B::at(from);
        wgmma_begin(d);
        UNROLL for (int kk = 0; kk < Tile::Elem::products; ++kk)
            Wgmma<typename Tile::Elem::Type, Tile::n>::template add<A::transposed, B::transposed>(
                d, a + kk * A::next, b + kk * B::next, !first.value || kk > 0);
        wgmma_commit();
        if (!first.value) {
            wgmma_wait<1>();
            if (speaks) barrier_arrive(read);
        }
        read = ring.empty + ring.stage;
        ring.next(), from += Tile::kept_bytes;
    };
    multiply(Int<1>());
    NO_UNROLL for (int step = 1; step < steps; ++step) multiply(Int<0>());
    wgmma_wait<0>(d);
    if (speaks) barrier_arrive(read);
}

// A warp: v += beta * c, pairs of a slice as in WgmmaOut::blend_pairs, of which some may lie behind the last
// column: these get what is in it.
template <int Count, int From, class Tile, class T>
DEVICE void kept_blend(const WgmmaOut<Tile, T>& to, float (&v)[Count], int row, int col, Int<From>) {
    const int lane = threadIdx.x % 32;
    row += threadIdx.x / 32 % 4 * 16 + lane / 4, col += lane % 4 * 2;
    UNROLL for (int j = 0; j < Count / 4; ++j) UNROLL for (int half = 0; half < 2; ++half) {
        float old[2], *two = v + 4 * j + 2 * half;
        const T* const line = to.c + min(row + 8 * half, to.m - 1) * to.c_m;
        Vec<T, 2>::load(line + min(col + 2 * Count * From + 8 * j, to.n - 2)).get(old);
        two[0] += to.beta * old[0], two[1] += to.beta * old[1];
    }
}

// change(v, s), s an Int: what alpha * sums become, a warp's 16 columns from 16 s on; they leave as by
// store_changed. All 64 of a box are made before the wait for the one that lay there, which TMA reads
// meanwhile.
template <class Elem, class Tile, class Change>
DEVICE void store_kept(typename Tile::Sum (&d)[Tile::sums], unsigned char* out, const CUtensorMap& y, int row,
                       int col, const int (&batch)[3], float alpha, Change change) {
    const int lane = threadIdx.x % 32;
    const float by = scaled(d, alpha);
    each<0, Tile::n / 64>([&](auto s) {
        unsigned r[4][4];
        each<0, 4>([&](auto j) {
            float v[8];
            UNROLL for (int x = 0; x < 8; ++x) v[x] = by * d[32 * s.value + 8 * j.value + x];
            change(v, Int<4 * s.value + j.value>());
            alignas(4) Elem pairs[4][2];
            UNROLL for (int i = 0; i < 4; ++i) from_acc2(pairs[i], v[2 * i], v[2 * i + 1]);
            UNROLL for (int i = 0; i < 4; ++i) r[j.value][i] = *reinterpret_cast<unsigned*>(pairs[i]);
        });
        unsigned char* box = box_of<Tile>(out, s.value);
        if (sends_boxes<Tile>()) store_wait_read<Tile::boxes - 1>();
        __syncwarp();
        UNROLL for (int j = 0; j < 4; ++j)
            stmatrix_x4(box_chunk(shared_address(box), lane % 16, 2 * j + lane / 16), r[j]);
        fence_async();
        __syncwarp();
        send_box<Tile>(box, y, row, col + 64 * s.value, batch);
    });
}

// `columns` blocks that follow each other have the same rows, and different columns. A warpgroup takes every
// places * 4-th 64 rows. `stages`: of each warpgroup.
template <class A, class B, class Tile, class T, class Source>
DEVICE void wgmma_kept(unsigned char* shared, Source& source, const CUtensorMap& boxes,
                       const WgmmaOut<Tile, T>& to, int steps, int stages, const FastDiv& columns) {
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);              // the same for all, known to ptxas
    const bool brings = warp >= 4 * KEPT_GROUPS;
    const int group = brings ? warp - 4 * KEPT_GROUPS : warp / 4;
    KeptRing<Tile> ring(shared, steps, stages, group);
    if (threadIdx.x == 0) source.ahead(), tensor_ahead(boxes), ring.begin();
    __syncthreads();
    unsigned column;
    const int place = columns.divmod(blockIdx.x, column), places = columns.div(gridDim.x);
    const int tiles = (to.m + Tile::m - 1) / Tile::m, col = column * Tile::n;
    const int first = place + group * places, by = KEPT_GROUPS * places;

    if (brings) {
        registers_give<32>();
        if (threadIdx.x % 32) return;
        if (group == 0) {
            source.begin({0, col, 0, 0}, 0);
            barrier_expect(ring.arrived, steps * Tile::kept_bytes);
            NO_UNROLL for (int step = 0; step < steps; ++step, source.next())
                source.columns_of(ring.kept + step * Tile::kept_bytes, ring.arrived);
        }
        NO_UNROLL for (int tile = first; tile < tiles; tile += by) {
            source.begin({tile * Tile::m, col, 0, 0}, 0);
            NO_UNROLL for (int step = 0; step < steps; ++step, source.next(), ring.next()) {
                barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);   // a new barrier lets it pass
                barrier_expect(ring.full + ring.stage, Tile::stage_bytes);
                source.rows(ring.at(), ring.full + ring.stage);
            }
        }
        return;
    }
    registers_take<112>();
    barrier_wait(ring.arrived, 0);
    NO_UNROLL for (int tile = first; tile < tiles; tile += by) {
        typename Tile::Sum d[Tile::sums];
        const int row = tile * Tile::m, at[3] = {0, 0, 0};
        if (to.form == FUSED) to.ahead(0, row, col);
        kept_sums<Tile, A, B>(d, ring, steps);
        if (!to.has_rows(row)) continue;
        const auto change = [&](auto& v, auto s) { to.change(v, 0, 0, row, col, s); };
        const auto blend = [&](auto& v, auto s) {
            if constexpr (Tile::n == 64) kept_blend(to, v, row, col, s);
            else to.blend_pairs(v, 0, row, col, s);
        };
        if (to.form == FUSED)
            store_kept<T, Tile>(d, ring.out, boxes, row, col, at, to.alpha, change);
        else if (to.beta != 0.f)
            store_kept<T, Tile>(d, ring.out, boxes, row, col, at, to.alpha, blend);
        else store_boxes<T, Tile>(d, ring.out, boxes, row, col, at, to.alpha, group);
    }
    if (sends_boxes<Tile>()) store_wait_read<0>();               // shared memory goes with the block
}

}  // namespace cydnn
