// From the number of an element to its place in several tensors that share their dims.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// Element i of a tensor with `rank` dims, innermost first. at[k] becomes its offset with strides[k]. sizes holds the dims but
// the last, which takes what is left of i. Below 2^31 elements no division is needed. A loop, not unrolled: the driver compiles
// this text when a plan is built, and parameters may be indexed at run time.
template <int Tensors>
DEVICE void unravel(i64 i, bool is_small, int rank, const Array<FastDiv, 7>& sizes, const Array<i64, 8>* const (&strides)[Tensors],
                    i64 (&at)[Tensors]) {
    UNROLL for (int k = 0; k < Tensors; ++k) at[k] = 0;
    NO_UNROLL for (int d = 0; d + 1 < rank; ++d) {
        const FastDiv size = sizes[d];
        const i64 outer = is_small ? i64(size.div(unsigned(i))) : i64(uint64_t(i) / size.by);
        const i64 index = i - outer * size.by;
        UNROLL for (int k = 0; k < Tensors; ++k) at[k] += index * (*strides[k])[d];
        i = outer;
    }
    UNROLL for (int k = 0; k < Tensors; ++k) at[k] += i * (*strides[k])[rank - 1];
}

}  // namespace cydnn
