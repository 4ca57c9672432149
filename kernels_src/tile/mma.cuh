// The tile program of the tensor-core convolutions: a block computes tile_m x tile_n sums over k steps of a
// line (MmaElem: 64 elements of 16 bits).
//
//   MmaTile<f16, M, N>     sizes: 4 warps as 2 x 2 (N = 256: 8 warps as 2 x 4), 3 stages of shared memory
//   KMajorA/B, MnMajorA/B  where the lanes of a warp find their fragments
//   mma_main               the pipeline; a Source fills the stages by cp.async
//
// Shared memory, one stage: operand A, then operand B, each as rows of 16-byte chunks.
//   k-major   (the sum index is contiguous in memory)   row = m or n, 8 chunks of k   a line a row
//   mn-major  (m or n is contiguous; 16-bit types)      row = k (64), the chunks of M or N
// Chunk c of row r lies at place c ^ (r & 7): the 8 rows that one ldmatrix phase reads in one column, and the
// 8 chunks that 8 lanes of a cp.async write in one row, are in 8 different 16-byte banks.
#pragma once
#include "lib/mma.cuh"

namespace cydnn {

template <class Type, int M, int N> struct MmaTile {
    using Elem = MmaElem<Type>;
    using Sum = typename Elem::Sum;
    static constexpr int m = M, n = N, k = Elem::line, stages = 3;
    static constexpr int warps_m = 2, warps_n = N == 256 ? 4 : 2, threads = 32 * warps_m * warps_n;
    static constexpr int warp_m = M / warps_m, warp_n = N / warps_n;
    static constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 16;
    static constexpr int a_bytes = M * LINE, b_bytes = N * LINE, stage_bytes = a_bytes + b_bytes;
    static constexpr int resident =                                            // blocks an SM
        M * N >= 128 * 256 ? 1 : M * N >= 128 * 128 ? 2 : M * N >= 128 * 64 ? 3 : 4;
    static_assert(M * (N + 8) * int(sizeof(Sum)) <= stages * stage_bytes,
                  "the sums of the epilogue must fit into the stages");
};
// [2]: the n8 halves of a 16-wide block
template <class Tile> using MmaSums = typename Tile::Sum[Tile::blocks_m][Tile::blocks_n][2][4];

DEVICE unsigned swizzled(int row, int chunk, int row_bytes) {
    return row * row_bytes + ((chunk ^ (row & 7)) << 4);
}

// Each gives the fragments of 16-wide block `block` for the kk-th product of a step: `at` is this lane's
// ldmatrix address in stage 0. Rows and chunks of other blocks and kk differ from it in whole rows (added) or
// in chunk bits 1 and 2 (exclusive or). A product has two chunks of the depth, whatever the type; what is
// transposed are elements of 16 bits.
template <class Tile> struct KMajorA {
    unsigned at;
    DEVICE KMajorA(unsigned shared, int warp_m, int lane) {
        at = shared + swizzled(warp_m * Tile::warp_m + lane % 16, lane / 16, LINE);
    }
    DEVICE void read(unsigned (&r)[4], unsigned stage, int block, int kk) const {
        ldmatrix_x4(r, ((at + stage) ^ (kk * 2 * CHUNK)) + block * 16 * LINE);
    }
};
template <class Tile> struct KMajorB {
    unsigned at;
    DEVICE KMajorB(unsigned shared, int warp_n, int lane) {
        const int row = warp_n * Tile::warp_n + lane % 8 + 8 * (lane / 16);
        at = shared + Tile::a_bytes + swizzled(row, lane / 8 % 2, LINE);
    }
    DEVICE void read(unsigned (&r)[4], unsigned stage, int block, int kk) const {
        ldmatrix_x4(r, ((at + stage) ^ (kk * 2 * CHUNK)) + block * 16 * LINE);
    }
};
template <class Tile> struct MnMajorA {
    static_assert(Tile::Elem::bytes == 2, "ldmatrix transposes elements of 16 bits");
    static constexpr int row_bytes = Tile::m * Tile::Elem::bytes;
    unsigned at;
    DEVICE MnMajorA(unsigned shared, int warp_m, int lane) {
        const int row = lane % 8 + 8 * (lane / 16);
        at = shared + swizzled(row, warp_m * Tile::warp_m / Tile::Elem::chunk + lane / 8 % 2, row_bytes);
    }
    DEVICE void read(unsigned (&r)[4], unsigned stage, int block, int kk) const {
        ldmatrix_x4_trans(r, ((at + stage) ^ (block * 2 * CHUNK)) + kk * Tile::Elem::k * row_bytes);
    }
};
template <class Tile> struct MnMajorB {
    static_assert(Tile::Elem::bytes == 2, "ldmatrix transposes elements of 16 bits");
    static constexpr int row_bytes = Tile::n * Tile::Elem::bytes;
    unsigned at;
    DEVICE MnMajorB(unsigned shared, int warp_n, int lane) {
        const int chunk = warp_n * Tile::warp_n / Tile::Elem::chunk + lane / 16;
        at = shared + Tile::a_bytes + swizzled(lane % 16, chunk, row_bytes);
    }
    DEVICE void read(unsigned (&r)[4], unsigned stage, int block, int kk) const {
        ldmatrix_x4_trans(r, ((at + stage) ^ (block * 2 * CHUNK)) + kk * Tile::Elem::k * row_bytes);
    }
};

template <class Tile, class A, class B>
DEVICE void read_fragments(unsigned (&a)[Tile::blocks_m][4], unsigned (&b)[Tile::blocks_n][4], const A& at_a,
                           const B& at_b, unsigned stage, int kk) {
    UNROLL for (int i = 0; i < Tile::blocks_m; ++i) at_a.read(a[i], stage, i, kk);
    UNROLL for (int j = 0; j < Tile::blocks_n; ++j) at_b.read(b[j], stage, j, kk);
}

template <class Tile>
DEVICE void multiply(MmaSums<Tile>& sums, const unsigned (&a)[Tile::blocks_m][4],
                     const unsigned (&b)[Tile::blocks_n][4]) {
    UNROLL for (int i = 0; i < Tile::blocks_m; ++i)
        UNROLL for (int j = 0; j < Tile::blocks_n; ++j)
            UNROLL for (int half = 0; half < 2; ++half)
                mma_m16n8<typename Tile::Elem::Type>(sums[i][j][half], a[i],
                                                     {b[j][2 * half], b[j][2 * half + 1]});
}

// sums += the product of `steps` k steps. The Source is called by every thread, for steps in order:
//   load_a(step, stage address), load_b(...)   cp.async of its share of the operand;
//   ahead(step)                                writes what they need from shared memory, a barrier earlier.
// The caller has done ahead(0 … stages - 1) and a barrier. Leaves with no copy under way; a barrier later
// the stages are free to use.
// Two sets of fragments: those of the next product are on their way while the tensor cores work on this one.
// The last product of a step already reads the next stage, so the barrier stands before it and the loads into
// the freed stage after it.
template <class Tile, class A, class B, class Source>
DEVICE void mma_main(MmaSums<Tile>& sums, unsigned shared, int steps, const A& at_a, const B& at_b,
                     Source& source) {
    constexpr int last = Tile::stages - 1, products = Tile::Elem::products;
    constexpr unsigned stage_bytes = Tile::stage_bytes;
    UNROLL for (int s = 0; s < last; ++s) {
        if (s < steps) source.load_a(s, shared + s * stage_bytes), source.load_b(s, shared + s * stage_bytes);
        cp_async_commit();
    }
    cp_async_wait<last - 1>();
    __syncthreads();
    unsigned a[2][Tile::blocks_m][4], b[2][Tile::blocks_n][4], read = 0, write = last * stage_bytes;
    read_fragments<Tile>(a[0], b[0], at_a, at_b, read, 0);
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const bool more = step + last < steps;
        UNROLL for (int kk = 0; kk < products; ++kk) {
            if (kk == products - 1) {
                cp_async_wait<last - 1>();
                __syncthreads();
                read = read == last * stage_bytes ? 0 : read + stage_bytes;
                write = write == last * stage_bytes ? 0 : write + stage_bytes;
            }
            read_fragments<Tile>(a[(kk + 1) % 2], b[(kk + 1) % 2], at_a, at_b, read,
                                 (kk + 1) % products);
            if (kk == 0 && more) source.load_a(step + last, shared + write);
            if (kk == 1 && more) source.load_b(step + last, shared + write);
            if (kk == 2) cp_async_commit(), source.ahead(step + last + 1);
            multiply<Tile>(sums, a[kk % 2], b[kk % 2]);
        }
    }
}

}  // namespace cydnn
