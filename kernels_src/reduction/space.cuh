// A space of up to 8 dims with strides: where its index-th element is.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// dims innermost first, filled up with ones. The walk stops where nothing is left of the index, so a space of one dim
// costs one step; index < 2^31.
DEVICE i64 offset_of(unsigned index, const Array<FastDiv, 8>& dims, const Array<i64, 8>& strides) {
    i64 off = 0;
    UNROLL for (int d = 0; d < 8; ++d) {
        if (index == 0) break;
        unsigned at;
        index = dims[d].divmod(index, at);
        off += i64(at) * strides[d];
    }
    return off;
}

}  // namespace cydnn
