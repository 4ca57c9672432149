// A space of up to 8 dims with strides: where its index-th element is.
#pragma once
#include "lib/walk.cuh"

namespace cydnn {

// offset_of for an index that ends within the first Dims (1 or 2) dims: no branch, so that
// loads follow each other at once.
template <int Dims>
DEVICE i64 offset_within(unsigned index, const Array<FastDiv, 8>& dims, const Array<i64, 8>& strides) {
    if constexpr (Dims == 1) return i64(index) * strides[0];
    else if constexpr (Dims == 2) {
        unsigned at;
        const unsigned row = dims[0].divmod(index, at);
        return i64(at) * strides[0] + i64(row) * strides[1];
    } else return offset_of<Dims>(index, dims, strides);
}

// Units u, u + step, ... of a space at x, all in flight together; those from `end` on are
// stand-ins, not to be used.
template <int Dims, bool Stream, class Unit, class Elem, int Ahead>
DEVICE void load_within(Unit (&v)[Ahead], const Elem* x, int u, int step, int end,
                        const Array<FastDiv, 8>& dims, const Array<i64, 8>& strides) {
    UNROLL for (int a = 0; a < Ahead; ++a) {
        const Elem* p = x + offset_within<Dims>(min(u + a * step, end - 1), dims, strides);
        v[a] = Stream ? Unit::load_stream(p) : Unit::load_nc(p);
    }
}
template <bool Stream, int Dims, class Unit, class Elem, int Ahead>
DEVICE void load_units(Unit (&v)[Ahead], const Elem* x, int u, int step, int end,
                       const Array<FastDiv, 8>& dims, const Array<i64, 8>& strides) {
    if (unsigned(end) <= dims[0].by) load_within<1, Stream>(v, x, u, step, end, dims, strides);
    else if (i64(end) <= i64(dims[0].by) * dims[1].by)
        load_within<2, Stream>(v, x, u, step, end, dims, strides);
    else load_within<Dims, Stream>(v, x, u, step, end, dims, strides);
}

}  // namespace cydnn
