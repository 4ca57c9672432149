// A part of a row of channels: 16 bytes that a thread owns, and `Side` elements on each side of them, 0
// beyond the ends. Rows are aligned to 16 bytes and have whole 16 bytes.
#pragma once
#include "tile/local_norm.cuh"

namespace cydnn {

template <class T, int Side> struct RowPart {
    static constexpr int own = 16 / sizeof(T), piece = Side < own ? Side : own, pieces = Side / piece;
    static constexpr int count = own + 2 * Side;
    using Piece = Vec<T, piece>;
    static_assert(Side % piece == 0 && (piece & (piece - 1)) == 0);
    Vec<T, own> mid;
    Piece left[pieces], right[pieces];

    static DEVICE Piece piece_of(const T* row, int c, int channels) {
        Piece v;
        UNROLL for (int i = 0; i < piece; ++i) v[i] = from_acc<T>(acc_t<T>(0));
        if (unsigned(c) < unsigned(channels)) v = Piece::load_nc(row + c);
        return v;
    }
    DEVICE void load(const T* row, int c, int channels) {
        mid = Vec<T, own>::load_nc(row + c);
        UNROLL for (int k = 0; k < pieces; ++k) {
            left[k] = piece_of(row, c - Side + k * piece, channels);
            right[k] = piece_of(row, c + own + k * piece, channels);
        }
    }
    DEVICE void get(acc_t<T> (&v)[count]) const {
        UNROLL for (int k = 0; k < pieces; ++k) UNROLL for (int i = 0; i < piece; ++i) {
            v[k * piece + i] = to_acc(left[k][i]);
            v[Side + own + k * piece + i] = to_acc(right[k][i]);
        }
        UNROLL for (int i = 0; i < own; ++i) v[Side + i] = to_acc(mid[i]);
    }
};

}  // namespace cydnn
