// What the kernels for planes with w innermost share: a group of lanes (2 to 32, a power of two) has
// neighbouring columns of a plane, Many each, and walks down the rows.
#pragma once
#include "tile/local_norm.cuh"

namespace cydnn {

// Where a thread works. An item is a segment of a row's columns by a chunk of `per` rows of a plane; of the
// lanes of a group, `useful` behind the first `lead` make results, the others only lend their columns.
template <int Many> struct Site {
    int lane, lanes, column, first;              // column: one that is there, also where the thread's is not
    unsigned c, n;
    bool is_there, is_useful;
    DEVICE Site(int lanes_log2, int items, int width, int per, int lead, int useful, const FastDiv& segments,
                const FastDiv& chunks, const FastDiv& channels) {
        lanes = 1 << lanes_log2, lane = threadIdx.x & (lanes - 1);
        const unsigned item = (blockIdx.x * blockDim.x + threadIdx.x) >> lanes_log2;
        unsigned segment, chunk;
        n = channels.divmod(chunks.divmod(segments.divmod(min(item, items - 1), segment), chunk), c);
        column = (int(segment) * useful + lane - lead) * Many, first = chunk * per;
        is_there = item < items && unsigned(column) < unsigned(width);
        is_useful = is_there && unsigned(lane - lead) < unsigned(useful);
        column = min(max(column, 0), width - Many);
    }
    // Neighbours' columns on both sides of a thread's own; 0 beyond the ends. All lanes of a warp call it.
    template <int Half, class Value>
    DEVICE void meet(Value (&row)[Many + 2 * Half], const Value (&own)[Many]) const {
        UNROLL for (int j = 0; j < Many; ++j) row[Half + j] = own[j];
        UNROLL for (int e = 1; e <= Half; ++e) {
            const int away = (e + Many - 1) / Many;
            const Value l = __shfl_up_sync(~0u, own[(Many - e % Many) % Many], away, lanes);
            const Value r = __shfl_down_sync(~0u, own[(e - 1) % Many], away, lanes);
            row[Half - e] = lane >= away ? l : Value(0);
            row[Half + Many - 1 + e] = lane + away < lanes ? r : Value(0);
        }
    }
    // Own columns of one row, and of some; of rows that are not there 0. Whole ones are near, and there.
    template <class Elem> static DEVICE Vec<Elem, Many> row_of(const Elem* p, i64 step, int h, int height) {
        return channel_of<Many>(p, step, h, height);
    }
    template <class Elem, int Count>
    static DEVICE void rows_of(Vec<Elem, Many> (&v)[Count], const Elem* p, i64 step, int h, int height,
                               bool is_whole) {
        if (is_whole) next_channels(v, p + h * step, step);
        else UNROLL for (int i = 0; i < Count; ++i) v[i] = row_of(p, step, h + i, height);
    }
    // A value of an own column; 0 where the column is not there.
    template <class Elem> DEVICE acc_t<Elem> value(Elem x) const {
        return is_there ? to_acc(x) : acc_t<Elem>(0);
    }
};

}  // namespace cydnn
