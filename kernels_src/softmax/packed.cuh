// Short rows without gaps: a block moves a tile of whole rows in chunks of 16 bytes, a thread computes a row.
#pragma once
#include "row.cuh"

namespace cydnn {

// The tile of a block: up to `each` rows of `cols` elements a thread in shared memory. Where a tile begins,
// memory is aligned to 16 bytes.
template <class Elem, int Threads> struct PackedRows {
    static constexpr int vec = 16 / sizeof(Elem);
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
        for (int i = threadIdx.x; i < count / vec; i += Threads)
            cp_async<16>(shared_address(tile + i), from + i * vec);
        for (int i = count / vec * vec + threadIdx.x; i < count; i += Threads) elements()[i] = from[i];
    }
    DEVICE void wait() const {
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
    }
    DEVICE void store(Elem* to) const {
        __syncthreads();
        to += start;
        for (int i = threadIdx.x; i < count / vec; i += Threads) reinterpret_cast<uint4*>(to)[i] = tile[i];
        for (int i = count / vec * vec + threadIdx.x; i < count; i += Threads) to[i] = elements()[i];
    }
};

}  // namespace cydnn
