// Short rows without gaps: a block moves a tile of whole rows in chunks of 16 bytes, a thread computes a row.
#pragma once
#include "row.cuh"

namespace cydnn {

// The tile of a block: up to `each` rows of `cols` elements a thread in shared memory. Where a tile begins,
// memory is aligned to 16 bytes. Unrolled: trips of the loops over chunks, no more than a tile can have.
template <class Elem, int Threads, int Unrolled = 4> struct PackedRows {
    static constexpr int vec = 16 / sizeof(Elem);
    static_assert(vec <= Threads, "PackedRows: what is left of the last chunk is an element a thread");
    uint4* tile;
    int cols, count;                                           // count: elements of this tile
    i64 start;
    DEVICE PackedRows(uint4* tile, int rows, int cols, int each) : tile(tile), cols(cols) {
        const int first = int(blockIdx.x) * (Threads * each);
        count = min(rows - first, Threads * each) * cols, start = i64(first) * cols;
    }
    DEVICE Elem* elements() const { return reinterpret_cast<Elem*>(tile); }
    DEVICE void load(const Elem* from) const {
        from += start;
#pragma unroll Unrolled
        for (int i = threadIdx.x; i < count / vec; i += Threads)
            cp_async<16>(shared_address(tile + i), from + i * vec);
        if (const int i = count / vec * vec + threadIdx.x; i < count) elements()[i] = from[i];
    }
    DEVICE void wait() const {
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
    }
    DEVICE void store(Elem* to) const {
        __syncthreads();
        to += start;
#pragma unroll Unrolled
        for (int i = threadIdx.x; i < count / vec; i += Threads)
            reinterpret_cast<uint4*>(to)[i] = tile[i];
        if (const int i = count / vec * vec + threadIdx.x; i < count) to[i] = elements()[i];
    }
};

}  // namespace cydnn
