// Operands of the tile program whose lines begin anywhere in memory, where TMA takes whole 16 bytes alone:
// threads copy the whole 16 bytes around to shared memory, some stages before they are needed, then shift
// them and put them where TMA would have.
//
//   Lines                 an operand: what is between two lines, how many they are
//   HandPanel<f16, KMajor>   128 lines of 128 bytes of a stage, as WgmmaPanel has them; four chunks of a
//                         thread
//   ByHand                both operands: a Source of tile/wgmma_blocks.cuh
//
// A chunk is 16 bytes. Eight lanes of a warp have those of a line, and the warp copies the nine times 16
// bytes around them; nobody else reads these. A warp has every eighth line, so that all of its chunks begin
// as many bytes behind whole 16.
#pragma once
#include "matmul/matrices.cuh"

namespace cydnn {

constexpr int RAW_LINE = LINE + CHUNK, RAW_PANEL = 128 * RAW_LINE;    // bytes

// Of a matrix: `count` lines of `length` elements, `step` bytes from one to the next. is_packed:
// nothing is between them, and they have two chunks at least, so that what is read around a chunk is of the
// matrix.
struct Lines {
    i64 step;
    int count, length, is_packed;
};

template <class Type, bool KMajor> struct HandPanel {
    using Elem = MmaElem<Type>;
    static_assert(Elem::bytes == 2, "what is shifted begins at words or half of them");
    static constexpr int each = 4;
    struct Chunk {
        const unsigned char* at;
        int line, column;
    };
    const Lines& all;
    const unsigned char* matrix;
    int row, copied, shifted;                    // of the panel; the depths that are next
    unsigned off;                                // bytes behind whole 16
    // Of stages that lie within the depth: where the 16 bytes begin that are next, of the first chunk and of
    // a ninth one; a bit for each chunk: they are copied, all of it is the matrix's (WHOLE), nothing is
    // (NOTHING).
    const unsigned char *from, *ninth;
    unsigned what;
    enum { WHOLE = 4, NOTHING = 8, NINTH = 12 };

    static DEVICE int warp() { return bringer() / 32; }
    static DEVICE int lane() { return bringer() % 32; }
    // The line of the panel of chunk i; mn-major, from 64 on the next 64 of m or n.
    static DEVICE int line_of(int i) { return warp() + lane() / 8 * 8 + 32 * i; }
    DEVICE Chunk place(int line, int right, int depth) const {
        const int down = KMajor ? line : line % Elem::line;
        const int more = KMajor ? right : right + line / Elem::line * Elem::line;
        const int mine = (KMajor ? row : depth) + down, column = (KMajor ? depth : row) + more;
        return {matrix + mine * all.step + column * Elem::bytes, mine, column};
    }
    DEVICE Chunk chunk(int i, int depth) const { return place(line_of(i), lane() % 8 * Elem::chunk, depth); }
    // The ninth 16 bytes of a line, of half of the lanes.
    DEVICE Chunk behind(int depth) const { return place(warp() + lane() % 16 * 8, Elem::line, depth); }

    // The whole 16 bytes from element `first` of a line on are the line's, or lie in others: those before and
    // behind it, where there are such. Not what is behind the line alone, and what is shifted from there.
    DEVICE bool may_read(int first, bool before, bool behind) const {
        return first < all.length + Elem::chunk && (first >= 0 || all.is_packed && before)
            && (first + Elem::chunk <= all.length || all.is_packed && behind);
    }
    DEVICE bool may_read(const Chunk& c, int more) const {
        return c.line < all.count
            && may_read(c.column - int(off / Elem::bytes) + more, c.line > 0, c.line < all.count - 1);
    }
    // How many of its elements the matrix has; from a chunk on all.
    DEVICE int left(const Chunk& c) const { return c.line < all.count ? all.length - c.column : 0; }
    // All of the depth of a stage is the matrix's; at its begin that says nothing of what is before it.
    DEVICE bool is_within(int depth) const {
        const bool has_before = off == 0 || (KMajor ? all.is_packed && row + warp() > 0 : warp() > 0);
        return (depth > 0 || has_before)
            && depth + Elem::line + (KMajor ? Elem::chunk : 1) <= (KMajor ? all.length : all.count);
    }

    DEVICE void begin(const unsigned char* first, int at, int depth) {
        matrix = first, row = at, copied = shifted = depth, what = 0;
        off = __shfl_sync(~0u, unsigned(reinterpret_cast<i64>(place(warp(), 0, depth).at)) & 15, 0);
        const auto reads = [&](const Chunk& c, int more) {
            return KMajor ? c.line < all.count
                          : may_read(c.column - int(off / Elem::bytes) + more, true, true);
        };
        UNROLL for (int i = 0; i < each; ++i) {
            const Chunk c = chunk(i, depth);
            const bool own = reads(c, 0), nothing = KMajor ? !own : c.column >= all.length;
            what |= (own | nothing << NOTHING
                     | (own && !nothing && (!off || reads(c, Elem::chunk))) << WHOLE) << i;
        }
        from = chunk(0, depth).at - off, ninth = behind(depth).at - off;
        what |= (lane() < 16 && off && reads(behind(depth), 0)) << NINTH;
    }
    DEVICE bool is(int bit, int i = 0) const { return what >> (bit + i) & 1; }
    DEVICE i64 further(int i) const {            // from the first chunk to another
        return KMajor ? i * 32 * all.step : i % 2 * 32 * all.step + i / 2 * LINE;
    }

    DEVICE void copy(unsigned char* raw) {
        const unsigned to = shared_address(raw) + line_of(0) * RAW_LINE + lane() % 8 * CHUNK;
        const unsigned last = shared_address(raw) + (warp() + lane() % 16 * 8) * RAW_LINE + LINE;
        if (is_within(copied)) {
            UNROLL for (int i = 0; i < each; ++i)
                if (is(0, i)) cp_async<CHUNK>(to + i * 32 * RAW_LINE, from + further(i));
            if (is(NINTH)) cp_async<CHUNK>(last, ninth);
        } else {
            NO_UNROLL for (int i = 0; i < each; ++i) {
                const Chunk c = chunk(i, copied);
                if (may_read(c, 0)) cp_async<CHUNK>(to + i * 32 * RAW_LINE, c.at - off);
            }
            const Chunk c = behind(copied);
            if (lane() < 16 && off && may_read(c, 0)) cp_async<CHUNK>(last, c.at - off);
        }
        const i64 by = KMajor ? LINE : Elem::line * all.step;
        copied += Elem::line, from += by, ninth += by;
    }

    // What is behind the last m or n meets nothing that is stored, but what is behind the depth is 0.
    DEVICE void shift(const unsigned char* raw, unsigned char* panel) {
        const unsigned char* in = raw + line_of(0) * RAW_LINE + lane() % 8 * CHUNK;
        uint4* to = reinterpret_cast<uint4*>(panel + line_of(0) * LINE + ((lane() ^ warp()) & 7) * CHUNK);
        unsigned rest = 15;                                  // to do one by one
        if (is_within(shifted)) {
            if (off == 0) shift_all<-1>(in, to);
            else if (off < 4) shift_all<0>(in, to);
            else if (off < 8) shift_all<1>(in, to);
            else if (off < 12) shift_all<2>(in, to);
            else shift_all<3>(in, to);
            rest = ~(what >> WHOLE | what >> NOTHING) & 15;
        }
        if (rest) NO_UNROLL for (int i = 0; i < each; ++i) if (rest >> i & 1) {
            const Chunk c = chunk(i, shifted);
            const int has = left(c);
            if (has <= 0) to[i * 256] = make_uint4(0, 0, 0, 0);
            else if (has >= (KMajor ? Elem::chunk : 1) && may_read(c, 0)
                     && (!off || may_read(c, Elem::chunk)))
                to[i * 256] = moved(in + i * 32 * RAW_LINE, off);
            else to[i * 256] = single(c.at, has);
        }
        shifted += Elem::line;
    }
    template <int Words> DEVICE void shift_all(const unsigned char* in, uint4* to) const {
        UNROLL for (int i = 0; i < each; ++i) {
            if (is(WHOLE, i)) to[i * 256] = moved<Words>(in + i * 32 * RAW_LINE, off & 2);
            else if (is(NOTHING, i)) to[i * 256] = make_uint4(0, 0, 0, 0);
        }
    }

    // The 16 bytes from so many words and `by` (0 or 2) bytes on; from the very place where Words is -1.
    template <int Words> static DEVICE uint4 moved(const unsigned char* from, unsigned by) {
        const uint4* two = reinterpret_cast<const uint4*>(from);
        if constexpr (Words < 0) return two[0];
        const uint4 a = two[0], b = two[1];
        const unsigned w[9] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        unsigned r[4];
        UNROLL for (int i = 0; i < 4; ++i) r[i] = __funnelshift_r(w[Words + i], w[Words + i + 1], by * 8);
        return make_uint4(r[0], r[1], r[2], r[3]);
    }
    // The same, of any number of bytes, word by word.
    static DEVICE uint4 moved(const unsigned char* from, unsigned by) {
        const unsigned* w = reinterpret_cast<const unsigned*>(from) + by / 4;
        unsigned r[4];
        UNROLL for (int i = 0; i < 4; ++i)
            r[i] = __funnelshift_r(w[i], by ? w[i + 1] : 0, (by & 2) * 8);
        return make_uint4(r[0], r[1], r[2], r[3]);
    }
    // Element by element, those that there are.
    static DEVICE uint4 single(const unsigned char* at, int has) {
        const unsigned short* from = reinterpret_cast<const unsigned short*>(at);
        unsigned r[4] = {};
        UNROLL for (int e = 0; e < 8; ++e) if (e < has) r[e / 2] |= unsigned(from[e]) << e % 2 * 16;
        return make_uint4(r[0], r[1], r[2], r[3]);
    }
};

template <class Type, class Tile, bool AInDepth, bool BInDepth> struct ByHand {
    static constexpr bool may_cast = false, by_hand = true, in_pieces = false;
    static constexpr int ahead_by = 2;           // stages that are copied before they are shifted
    static_assert(Tile::m == 128 && Tile::n == 128);
    const Type *a, *b;
    const Array<FastDiv, BATCH_DIMS>& batch;
    const BatchSteps &a_batch, &b_batch, &c_batch;
    unsigned char* raw;                          // of so many stages
    HandPanel<Type, AInDepth> rows;
    HandPanel<Type, BInDepth> columns;

    DEVICE void ahead() const {}
    DEVICE i64 offset(unsigned matrix) const {
        i64 unused, same, off;
        batch_offsets(matrix, batch, c_batch, c_batch, c_batch, unused, same, off);
        return off;
    }
    DEVICE int column(unsigned) const { return 0; }
    DEVICE void begin(const TileAt& tile, int first) {
        i64 a_off, b_off, unused;
        batch_offsets(tile.matrix, batch, a_batch, b_batch, c_batch, a_off, b_off, unused);
        rows.begin(reinterpret_cast<const unsigned char*>(a + a_off), tile.row, first);
        columns.begin(reinterpret_cast<const unsigned char*>(b + b_off), tile.col, first);
    }
    DEVICE void copy(int slot) {
        unsigned char* to = raw + slot * 2 * RAW_PANEL;
        rows.copy(to), columns.copy(to + RAW_PANEL);
    }
    DEVICE void shift(int slot, unsigned char* stage) {
        unsigned char* from = raw + slot * 2 * RAW_PANEL;
        rows.shift(from, stage), columns.shift(from + RAW_PANEL, stage + Tile::a_bytes);
    }
};

}  // namespace cydnn
