// Which group a row is in, by the offsets at which groups begin.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// Offsets, `step` words of 32 bits apart: the low words of those of 64 bits. The first `groups` of them begin
// a group.
struct Groups {
    const int* offsets;
    i64 step;
    int count, groups;
    // Where one lies among so many rows.
    DEVICE int at(int i, int rows) const { return min(max(offsets[i * step], 0), rows); }
    // The group of a row: how many offsets it has reached, less one; -1 where it is in none.
    DEVICE int of(int row) const {
        int reached = 0;
        for (int i = 0; i < count; ++i) reached += offsets[i * step] <= row;
        return reached <= groups ? reached - 1 : -1;
    }
};

// Where a row is scattered to, -1 where that is no place.
DEVICE int place_of(int token, int slot, int top_k, int places) {
    const i64 place = i64(token) * top_k + slot;
    return place >= 0 && place < places ? int(place) : -1;
}

}  // namespace cydnn
