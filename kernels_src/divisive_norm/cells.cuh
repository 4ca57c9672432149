// What the kernels of divisive normalization for any strides share. Arrays are w h d; strides w h d c n.
#pragma once
#include "tile/local_norm.cuh"

namespace cydnn {

// The coordinates of an item: its digits, innermost first, are w h d c or c w h d (channels_inner), n the
// rest.
struct Cell {
    int at[3], c, n;
    DEVICE Cell(unsigned item, const Array<FastDiv, 4>& digits, int channels_inner) {
        unsigned e[4];
        UNROLL for (int k = 0; k < 4; ++k) item = digits[k].divmod(item, e[k]);
        UNROLL for (int k = 0; k < 3; ++k) at[k] = channels_inner ? e[k + 1] : e[k];
        c = channels_inner ? e[0] : e[3], n = item;
    }
    // Where the plane of the cell begins, and the cell in it.
    DEVICE i64 plane(const Array<i64, 5>& strides) const { return c * strides[3] + n * strides[4]; }
    DEVICE i64 inside(const Array<i64, 5>& strides) const {
        return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
    }
    DEVICE i64 offset(const Array<i64, 5>& strides) const { return plane(strides) + inside(strides); }
};

// Calls of(cell's offset in each of two planes) for the cells of a window around a cell, cut at the ends.
struct Window {
    int first[3], last[3];
    DEVICE Window(const Cell& cell, const Array<int, 3>& sizes, int behind, int ahead) {
        UNROLL for (int k = 0; k < 3; ++k) {
            first[k] = max(0, cell.at[k] - behind);
            last[k] = min(sizes[k] - 1, cell.at[k] + ahead);
        }
    }
    template <class Of>
    DEVICE void each(const Array<i64, 5>& one, const Array<i64, 5>& other, Of of) const {
        for (int d = first[2]; d <= last[2]; ++d)
            for (int h = first[1]; h <= last[1]; ++h) {
                const i64 a = d * one[2] + h * one[1], b = d * other[2] + h * other[1];
                _Pragma("unroll 4") for (int w = first[0]; w <= last[0]; ++w)
                    of(a + w * one[0], b + w * other[0]);
            }
    }
};

}  // namespace cydnn
