// One operand of a matmul on tensor cores: the share of a thread in filling a stage of
// tile/mma.cuh by cp.async.
//
//   k_major    row r of the tile (m or n) is a row of 8 chunks of the depth (a line)
//              memory  base + (row0 + r) * step + depth
//   otherwise  depth d is a row of the chunks of Rows of m or n
//              memory  base + depth * step + row0 + r
//
// Tails are zero: a chunk copies only the elements that exist, so nothing outside the matrix is read.
#pragma once
#include "tile/mma.cuh"

namespace cydnn {

template <class Type, int Rows, int Threads, bool KMajor> struct Panel {
    using Elem = MmaElem<Type>;
    static constexpr int chunks = KMajor ? CHUNKS : Rows / Elem::chunk;
    static constexpr int lines = KMajor ? Rows : Elem::line;
    static constexpr int apart = Threads / chunks, copies = lines / apart;
    const Type* p;                                       // this thread's first chunk of the first step
    i64 apart_step, k_step;
    // What exists, counted from this thread's first line and chunk.
    int depth, line, chunk, lines_left, chunk_left;
    unsigned at;                                         // the first chunk's place in a stage

    DEVICE Panel(const Type* base, i64 step, int row0, int rows, int begin, int end)
        : apart_step(step * apart), k_step(KMajor ? Elem::line : Elem::line * step), depth(end - begin) {
        line = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
        p = KMajor ? base + (i64(row0) + line) * step + begin + chunk * Elem::chunk
                   : base + (i64(begin) + line) * step + row0 + chunk * Elem::chunk;
        lines_left = (KMajor ? rows - row0 : depth) - line;
        chunk_left = (KMajor ? depth : rows - row0) - chunk * Elem::chunk;
        at = swizzled(line, chunk, chunks * CHUNK);
        static_assert(apart % 8 == 0, "the swizzle must be that of the first line");
    }
    DEVICE void load(int index, unsigned stage) {
        const Type* from = p + index * k_step;
        const int have = chunk_left - (KMajor ? index * Elem::line : 0);
        const int lines_here = lines_left - (KMajor ? 0 : index * Elem::line);
        const int bytes = max(0, min(have, Elem::chunk)) * Elem::bytes;
        UNROLL for (int i = 0; i < copies; ++i)
            cp_async<CHUNK>(stage + at + i * apart * chunks * CHUNK, from + i * apart_step,
                         i * apart < lines_here ? bytes : 0);
    }
};

// Axis values: how an operand lies in memory, and who reads its fragments.
struct ak { static constexpr bool k_major = true; template <class Tile> using Fragments = KMajorA<Tile>; };
struct am { static constexpr bool k_major = false; template <class Tile> using Fragments = MnMajorA<Tile>; };
struct bk { static constexpr bool k_major = true; template <class Tile> using Fragments = KMajorB<Tile>; };
struct bn { static constexpr bool k_major = false; template <class Tile> using Fragments = MnMajorB<Tile>; };

}  // namespace cydnn
