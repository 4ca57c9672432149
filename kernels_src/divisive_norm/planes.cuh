// Where the kernels for planes with w innermost work: a group of lanes (2 to 32, a power of two) has
// neighbouring columns of a plane, Many each, and walks down the rows.
#pragma once
#include "walk.cuh"

namespace cydnn {

// Where a thread works. An item is a segment of a row's columns by a chunk of `per` rows of a plane; of the
// lanes of a group, `useful` behind the first `lead` make results, the others only lend their columns.
template <int Many> struct Site {
    int lanes, column, first, width;             // column: one that is there, also where the thread's is not
    int left, right;                             // lanes on each side that have columns
    unsigned c, n;
    bool is_useful;
    DEVICE Site(int lanes_log2, int items, int width, int per, int lead, int useful, const FastDiv& segments,
                const FastDiv& chunks, const FastDiv& channels) : width(width) {
        lanes = 1 << lanes_log2;
        const int lane = threadIdx.x & (lanes - 1);
        const unsigned item = (blockIdx.x * blockDim.x + threadIdx.x) >> lanes_log2;
        unsigned segment, chunk;
        n = channels.divmod(chunks.divmod(segments.divmod(min(item, items - 1), segment), chunk), c);
        const int before = int(segment) * useful - lead;       // lanes of the row before this group
        column = (before + lane) * Many, first = chunk * per;
        left = min(lane, lane + before), right = min(lanes, width / Many - before) - 1 - lane;
        is_useful = item < items && unsigned(column) < unsigned(width)
                    && unsigned(lane - lead) < unsigned(useful);
        column = min(max(column, 0), width - Many);
    }
    // Where an operand begins for the thread; null stays null.
    template <class Elem> DEVICE Elem* start(Elem* p, const Array<i64, 3>& strides) const {
        return p ? p + n * strides[2] + c * strides[1] + column : p;
    }
    // Columns of the window of column j that are there.
    DEVICE int wide(int j, int window) const { return span_of(column + j, width, window); }

    // Neighbours' columns on both sides of a thread's own; 0 beyond the ends. All lanes of a warp call it.
    template <int Half, class Value>
    DEVICE void meet(Value (&row)[Many + 2 * Half], const Value (&own)[Many]) const {
        UNROLL for (int j = 0; j < Many; ++j) row[Half + j] = own[j];
        UNROLL for (int e = 1; e <= Half; ++e) {
            const int away = (e + Many - 1) / Many;
            const Value l = __shfl_up_sync(~0u, own[(Many - e % Many) % Many], away, lanes);
            const Value r = __shfl_down_sync(~0u, own[(e - 1) % Many], away, lanes);
            row[Half - e] = left >= away ? l : Value(0);
            row[Half + Many - 1 + e] = right >= away ? r : Value(0);
        }
    }
    template <int Most, bool Ahead, bool IsFull, int Count, class Value>
    DEVICE void across(Value (&sum)[Count][Many], int window) const {
        UNROLL for (int i = 0; i < Count; ++i) {
            Value row[Many + 2 * Reach<Most>::half];
            meet<Reach<Most>::half>(row, sum[i]);
            window_of<Most, Ahead, IsFull>(sum[i], row, window);
        }
    }
    // One r for all columns of the group, of every other row and of a lane's first and last column: windows
    // of 3 x 3 cells have one of these.
    template <class Elem, int All>
    DEVICE void nearest_of(acc_t<Elem> (&r)[Many], const Row<Elem, Many> (&rows)[All]) const {
        acc_t<Elem> low = INFINITY, high = -INFINITY;
        UNROLL for (int i = 0; i < All; i += 2) UNROLL for (int j = 0; j < Many; j += Many > 1 ? Many - 1 : 1)
            low = fmin(low, rows[i][j]), high = fmax(high, rows[i][j]);
        NO_UNROLL for (int away = 1; away < lanes; away *= 2) {
            low = fmin(low, __shfl_xor_sync(~0u, low, away));
            high = fmax(high, __shfl_xor_sync(~0u, high, away));
        }
        UNROLL for (int j = 0; j < Many; ++j) r[j] = nearest(low, high);
    }
};

}  // namespace cydnn
