// From the number of an element to its place in several tensors that share their dims.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// Elements i[0], i[1], … (below 2^31) of a tensor with `rank` dims, innermost first: at[u][k] becomes the offset of i[u] with strides[k],
// counted from starts[k]. sizes holds the dims but the last, which takes what is left of i. A loop, not unrolled: the driver compiles this
// text when a plan is built, and parameters may be indexed at run time.
template <int Count, int Tensors>
DEVICE void unravel(unsigned (&i)[Count], int rank, const Array<FastDiv, 7>& sizes, const Array<i64, Tensors>& starts,
                    const Array<i64, 8>* const (&strides)[Tensors], i64 (&at)[Count][Tensors]) {
    UNROLL for (int u = 0; u < Count; ++u) UNROLL for (int k = 0; k < Tensors; ++k) at[u][k] = starts[k];
    NO_UNROLL for (int d = 0; d + 1 < rank; ++d) {
        const FastDiv size = sizes[d];
        UNROLL for (int u = 0; u < Count; ++u) {
            unsigned index;
            i[u] = size.divmod(i[u], index);
            UNROLL for (int k = 0; k < Tensors; ++k) at[u][k] += index * (*strides[k])[d];
        }
    }
    UNROLL for (int u = 0; u < Count; ++u) UNROLL for (int k = 0; k < Tensors; ++k) at[u][k] += i[u] * (*strides[k])[rank - 1];
}

}  // namespace cydnn
