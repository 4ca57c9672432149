// Offsets of elements, and of batches that begin anywhere.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// The offset of an element, by steps in this order.
DEVICE i64 along(const Array<i64, 4>& steps, int batch, int head, int row, int col) {
    return batch * steps[0] + head * steps[1] + row * steps[2] + col * steps[3];
}

// The elements of a batch of a tensor: where it begins, and for one whose batches begin at offsets (of 64
// bits where `is_wide`) where the next does.
struct Batch {
    i64 begin, end;
    DEVICE Batch(const int* offsets, bool is_wide, int batch, i64 step) {
        begin = batch * step, end = INT64_MAX;
        if (!offsets) return;
        begin = word(offsets + (batch << is_wide), is_wide);
        end = word(offsets + (batch + 1 << is_wide), is_wide);
    }
    DEVICE static i64 word(const int* at, bool is_wide) {           // without a branch
        const int low = at[0], next = at[is_wide], mask = -int(is_wide);
        return i64(next & mask | low >> 31 & ~mask) << 32 | unsigned(low);
    }
    DEVICE bool has(i64 off) const { return off >= 0 && off < end; }
    DEVICE i64 at(const Array<i64, 4>& steps, int head, int row, int col) const {
        return begin + head * steps[1] + row * steps[2] + col * steps[3];
    }
};

}  // namespace cydnn
