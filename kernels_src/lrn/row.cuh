// A part of a row of channels: 16 bytes that a thread owns, and `Side` elements on each side of them, 0
// beyond the ends. Rows are aligned to 16 bytes and have whole 16 bytes.
#pragma once
#include "window.cuh"

namespace cydnn {

template <class T, int Side> struct RowPart {
    static constexpr int own = 16 / sizeof(T), piece = Side < own ? Side : own, pieces = Side / piece;
    static constexpr int count = own + 2 * Side;
    using Piece = Vec<T, piece>;
    using Access = typename Piece::Access;                          // of one word
    static_assert(Side % piece == 0 && (piece & (piece - 1)) == 0);
    Vec<T, own> mid;
    Access left[pieces], right[pieces];

    static DEVICE Access piece_of(const T* p, bool is_there) {
        Access word{};
        if (is_there) word = __ldg(reinterpret_cast<const Access*>(p));
        if constexpr (sizeof(Access) == 4) asm("" : "+r"(word));    // one register, not two halves
        return word;
    }
    // p: of channel c, the first that it owns.
    DEVICE void load(const T* p, int c, int channels) {
        mid = Vec<T, own>::load_nc(p);
        UNROLL for (int k = 0; k < pieces; ++k) {
            left[k] = piece_of(p - Side + k * piece, c >= Side - k * piece);
            right[k] = piece_of(p + own + k * piece, c + own + k * piece < channels);
        }
    }
    DEVICE void get(acc_t<T> (&v)[count]) const {
        UNROLL for (int k = 0; k < pieces; ++k) UNROLL for (int i = 0; i < piece; ++i) {
            v[k * piece + i] = to_acc(reinterpret_cast<const Piece&>(left[k])[i]);
            v[Side + own + k * piece + i] = to_acc(reinterpret_cast<const Piece&>(right[k])[i]);
        }
        UNROLL for (int i = 0; i < own; ++i) v[Side + i] = to_acc(mid[i]);
    }
};

}  // namespace cydnn
