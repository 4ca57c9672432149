// Batch dims of a matmul: up to six after merging, the fastest first; unused ones are 1. A
// broadcast operand has stride 0.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

constexpr int BATCH_DIMS = 6;
using BatchSteps = Array<i64, BATCH_DIMS>;

DEVICE void batch_offsets(unsigned index, const Array<FastDiv, BATCH_DIMS>& dims, const BatchSteps& a,
                          const BatchSteps& b, const BatchSteps& c, i64& a_off, i64& b_off, i64& c_off) {
    a_off = b_off = c_off = 0;
    UNROLL for (int i = 0; i < BATCH_DIMS; ++i) {
        unsigned digit = index;                                 // the last one is what is left
        if (i + 1 < BATCH_DIMS) index = dims[i].divmod(index, digit);
        a_off += digit * a[i], b_off += digit * b[i], c_off += digit * c[i];
    }
}

}  // namespace cydnn
