// One operand of a matmul on tensor cores: the share of a thread in filling a stage of
// tile/mma.cuh by cp.async.
//
//   k_major    row r of the tile (m or n) is a row of 8 chunks of the depth
//              memory  base + (row0 + r) * step + depth
//   otherwise  depth d is a row of Rows / 8 chunks of m or n
//              memory  base + depth * step + row0 + r
//
// Tails are zero: a chunk copies only the elements that exist, so nothing outside the matrix is read.
#pragma once
#include "tile/mma.cuh"

namespace cydnn {

template <class Elem, int Rows, int Threads, bool KMajor> struct Panel {
    static constexpr int chunks = KMajor ? 8 : Rows / 8, lines = KMajor ? Rows : 64;
    static constexpr int apart = Threads / chunks, copies = lines / apart;
    const Elem* p;                                       // this thread's first chunk of the first step
    i64 apart_step, k_step;
    // What exists, counted from this thread's first line and chunk.
    int depth, line, chunk, lines_left, chunk_left;
    unsigned at;                                         // the first chunk's place in a stage

    DEVICE Panel(const Elem* base, i64 step, int row0, int rows, int begin, int end)
        : apart_step(step * apart), k_step(KMajor ? 64 : 64 * step), depth(end - begin) {
        line = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
        p = KMajor ? base + (i64(row0) + line) * step + begin + chunk * 8
                   : base + (i64(begin) + line) * step + row0 + chunk * 8;
        lines_left = (KMajor ? rows - row0 : depth) - line;
        chunk_left = (KMajor ? depth : rows - row0) - chunk * 8;
        at = swizzled(line, chunk, chunks * 16);
        static_assert(apart % 8 == 0, "the swizzle must be that of the first line");
    }
    DEVICE void load(int index, unsigned stage) {
        const Elem* from = p + index * k_step;
        const int have = chunk_left - (KMajor ? index * 64 : 0);
        const int lines_here = lines_left - (KMajor ? 0 : index * 64);
        const int bytes = max(0, min(have, 8)) * int(sizeof(Elem));
        UNROLL for (int i = 0; i < copies; ++i)
            cp_async<16>(stage + at + i * apart * chunks * 16, from + i * apart_step,
                         i * apart < lines_here ? bytes : 0);
    }
};

// Axis values: how an operand lies in memory, and who reads its fragments.
struct ak { static constexpr bool k_major = true; template <class Tile> using Fragments = KMajorA<Tile>; };
struct am { static constexpr bool k_major = false; template <class Tile> using Fragments = MnMajorA<Tile>; };
struct bk { static constexpr bool k_major = true; template <class Tile> using Fragments = KMajorB<Tile>; };
struct bn { static constexpr bool k_major = false; template <class Tile> using Fragments = MnMajorB<Tile>; };

}  // namespace cydnn
