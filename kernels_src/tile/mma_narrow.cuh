// What mma.cuh has for narrow sides.
//
//   MmaTile<f16, 256, 32>     for few columns: 4 warps below each other
//   cp_async_chunk            through L1, too, where pixels are small
#pragma once
#include "mma.cuh"

namespace cydnn {

template <class Type> struct MmaTile<Type, 256, 32> {
    using Elem = MmaElem<Type>;
    using Sum = typename Elem::Sum;
    static constexpr int m = 256, n = 32, k = Elem::line, stages = 3;
    static constexpr int warps_m = 4, warps_n = 1, threads = 128;
    static constexpr int warp_m = 64, warp_n = 32, blocks_m = 4, blocks_n = 2;
    static constexpr int a_bytes = m * LINE, b_bytes = n * LINE, stage_bytes = a_bytes + b_bytes;
    static constexpr int resident = 2;                                         // blocks an SM
    static_assert(m * (n + 8) * int(sizeof(Sum)) <= stages * stage_bytes,
                  "the sums of the epilogue must fit into the stages");
};

// PTX ISA §cp.async (.ca): 16 bytes through L1. Where a pixel has one or two chunks, taps beside each other
// meet halves of the same sectors; on an H200 15 % of the time of 8 channels, while 32 lose as much.
template <bool Near> DEVICE void cp_async_chunk(bool valid, unsigned address, const void* p) {
    if constexpr (Near)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                     :: "r"(address), "l"(__cvta_generic_to_global(p)), "r"(valid ? 16 : 0) : "memory");
    else cp_async_if<CHUNK>(valid, address, p);
}
constexpr int NEAR = 2;                          // chunks of a pixel

// Where chunk c of row r of an mn-major operand lies. Rows of 4 chunks: two make a line, so chunk c lies at
// place c ^ (r / 2 & 3), and 8 rows of one column are in 8 different banks.
template <int Chunks> DEVICE unsigned across_place(int row, int chunk) {
    if constexpr (Chunks == 4) return row * 4 * CHUNK + ((chunk ^ (row / 2 & 3)) << 4);
    else return swizzled(row, chunk, Chunks * CHUNK);
}

template <class Type> struct MnMajorB<MmaTile<Type, 256, 32>> {
    using Tile = MmaTile<Type, 256, 32>;
    static_assert(Tile::Elem::bytes == 2, "ldmatrix transposes elements of 16 bits");
    unsigned at;
    DEVICE MnMajorB(unsigned shared, int, int lane) {
        at = shared + Tile::a_bytes + across_place<4>(lane % 16, lane / 16);
    }
    DEVICE void read(unsigned (&r)[4], unsigned stage, int block, int kk) const {
        ldmatrix_x4_trans(r, ((at + stage) ^ (block * 2 * CHUNK)) + kk * Tile::Elem::k * 4 * CHUNK);
    }
};

}  // namespace cydnn
