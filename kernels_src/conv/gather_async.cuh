// gather_multiply of conv/gather_simt.cuh, of operands whose lanes run along rows: they are copied to shared
// memory past the registers (tile/simt_async.cuh), 16 bytes at a time where the flags say that four rows are
// neighbours in memory. The table is decoded as far ahead as the copies are.
#pragma once
#include "conv/gather_simt.cuh"
#include "tile/simt_async.cuh"

namespace cydnn {

// Depths of one operand's step that this thread copies: from(depth) -> whether it exists, and where.
template <class S, AsyncLanes Lanes, int Rows, class Elem, int K, int Pitch, class From>
DEVICE void gather_async(Elem (&tile)[K][Pitch], From from) {
    using Place = AsyncPlace<S, Rows, Lanes>;
    const int depth = Place::depth(threadIdx.x);
    const unsigned to = shared_address(&tile[depth][Place::row(threadIdx.x)]);
    UNROLL for (int e = 0; e < Place::count; ++e) {
        const Elem* p;
        const bool exists = from(depth + e * Place::by, p);
        cp_async_if<Place::wide * sizeof(Elem)>(exists, to + e * Place::by * Pitch * sizeof(Elem), p);
    }
}

template <class S, class Elem, class Entry>
DEVICE void gather_multiply_async(typename S::Shared& tiles, Taps& taps, const Elem* x, const int (&z)[3],
                                  const Array<int, 3>& size, const Elem* w, bool w_valid, int flags,
                                  int begin, int end, Entry entry, typename S::Sum (&acc)[S::FM][S::FN]) {
    auto decode = [&](int first) { decode_taps(taps, begin, end, first, entry); };
    auto copy = [&](int stage, int step) {
        const int first = step * S::k, at = first % (2 * TABLE);
        auto gathered = [&](int depth, const Elem*& p) {
            const Tap tap = taps.gathered[at + depth];
            p = x + tap.off;
            return is_inside(z, tap, size);
        };
        auto plain = [&](int depth, const Elem*& p) {
            p = w + taps.plain[at + depth];
            return w_valid && depth < end - begin - first;
        };
        if (flags & X_ROW_VECTORS) gather_async<S, ROW_QUARTETS, S::m>(tiles.a[stage], gathered);
        else gather_async<S, ROWS, S::m>(tiles.a[stage], gathered);
        if (flags & W_ROW_VECTORS) gather_async<S, ROW_QUARTETS, S::n>(tiles.b[stage], plain);
        else gather_async<S, ROWS, S::n>(tiles.b[stage], plain);
        decode(first + S::k);
    };
    S::clear(acc);
    decode(0);
    __syncthreads();
    async_multiply<S>(tiles, ceil_div(end - begin, S::k), acc, copy);
}

// Both operands may lie in vectors of rows. corner(row, z): the part of an offset in x that belongs to a row,
// and its coordinates. w begins at the tile's first row, of `w_rows` that lie `w_step` apart.
template <class S, class Elem, class Corner, class Entry>
DEVICE void gather_multiply_rows(typename S::Shared& tiles, Taps& taps, const Elem* x, Corner corner,
                                 const Array<int, 3>& size, const Elem* w, i64 w_step, int w_rows, int flags,
                                 int begin, int end, Entry entry, typename S::Sum (&acc)[S::FM][S::FN]) {
    const Place<S::m, S::k> px(flags & X_ALONG_DEPTH, int(threadIdx.x), flags & X_ROW_VECTORS);
    const Place<S::n, S::k> pw(flags & W_ALONG_DEPTH, int(threadIdx.x), flags & W_ROW_VECTORS);
    int z[3];
    x += corner(px.row, z), w += pw.row * w_step;
    if constexpr (S::is_async)
        gather_multiply_async<S>(tiles, taps, x, z, size, w, pw.row < w_rows, flags, begin, end, entry, acc);
    else
        gather_multiply<S, true, true>(tiles, taps, px, x, z, size, pw, w, pw.row < w_rows, flags, begin, end,
                                       entry, acc);
}

}  // namespace cydnn
