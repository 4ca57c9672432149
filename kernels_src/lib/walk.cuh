// Where the index-th element of a space of up to 8 dims with strides is.
#pragma once
#include "types.cuh"

namespace cydnn {

// dims innermost first, filled up with ones. The walk may end behind the third, where nothing is
// left of the index: few spaces have more. index < 2^31. Dims: the most that there can be; of the
// last, the index is what is left.
template <int Dims = 8>
DEVICE i64 offset_of(unsigned index, const Array<FastDiv, 8>& dims, const Array<i64, 8>& strides) {
    i64 off = 0;
    UNROLL for (int d = 0; d < Dims - 1; ++d) {
        if (d == 3 && index == 0) return off;
        unsigned at;
        index = dims[d].divmod(index, at);
        off += i64(at) * strides[d];
    }
    return off + i64(index) * strides[Dims - 1];
}

}  // namespace cydnn
