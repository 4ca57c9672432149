// Where the threads of the batch norm kernels of any type stand: an item is LANES neighbours, along columns
// (COLS 1: V columns of one row) or along the rows of one column. The marks are those of row.cuh; `row`
// counts items.
#pragma once
#include "moments.cuh"
#include "row.cuh"

namespace cydnn {

constexpr int V = COLS ? LANES : 1, Digits = LANES == 1 ? 4 : 2, Widest = V == 1 ? 32 : 8 * V;

template <int Count> struct RowsOf { int at[Count]; };

struct AnyPlace {
    int group, step, first_col, lane, col;
    DEVICE explicit AnyPlace(int lanes_log2) {
        lane = threadIdx.x & ((1 << lanes_log2) - 1), group = threadIdx.x >> lanes_log2;
        step = 512 >> lanes_log2;
        first_col = int(blockIdx.x << lanes_log2) * V, col = first_col + lane * V;
    }
    // This thread's items of a split, `Ahead` at once: their loads are under way together.
    template <int Ahead, class Use> DEVICE void walk(const Split& split, Use use) const {
        int row = split.first + group;
        NO_UNROLL for (; row + (Ahead - 1) * step < split.last; row += Ahead * step) {
            RowsOf<Ahead> some;
            UNROLL for (int k = 0; k < Ahead; ++k) some.at[k] = row + k * step;
            use(some);
        }
        if constexpr (Ahead == 2) {
            if (row < split.last) use(RowsOf<1>{{row}});
        } else if constexpr (Ahead > 2) NO_UNROLL for (; row < split.last; row += step) use(RowsOf<1>{{row}});
    }
};

}  // namespace cydnn
