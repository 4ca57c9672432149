// The marks of the attention kernels of any type, at batch, head and row of q:
//
//   load_q depth     load_k, load_v at head and key of theirs, and depth or col: spliced code loads
//   row              before the keys, once; score col: changes one score; weight col: a factor of its weight
//   store col        spliced code stores; stats: the logarithm of a row's sum, score_max, score_sum_exp
//   load_sink        at batch and head: a score without a key
//
// Of keys and values in pages, batch and key are a page and a place in it.
//
// `row` and `score` name the number of the row in its thread, which is the slot of what is kept.
#pragma once
#include "lib/number.cuh"
#include "lib/philox.cuh"
#include "ragged.cuh"

namespace cydnn {

#define CYDNN_MARK(NAME, VALUE, LETTER, ROW, COL)                                            \
    DEVICE void fuse_##NAME(VALUE& v, i64 off, int batch, int head, int row, int col) {      \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 batch=%2 head=%3 " ROW "=%4 " COL "=%5;" \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row), "r"(col)); \
    }
#define CYDNN_ROW_MARK(NAME, VALUE, LETTER)                                                   \
    DEVICE void fuse_##NAME(VALUE& v, i64 off, int batch, int head, int row) {               \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 batch=%2 head=%3 row=%4;"               \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row));           \
    }
#define CYDNN_MARKS(VALUE, LETTER)                                                                \
    CYDNN_MARK(load_q, VALUE, LETTER, "row", "depth")                                             \
    CYDNN_MARK(load_k, VALUE, LETTER, "key", "depth")                                             \
    CYDNN_MARK(load_v, VALUE, LETTER, "key", "col")                                               \
    CYDNN_MARK(store, VALUE, LETTER, "row", "col")                                                \
    CYDNN_ROW_MARK(stats, VALUE, LETTER)                                                          \
    CYDNN_ROW_MARK(score_max, VALUE, LETTER)                                                      \
    CYDNN_ROW_MARK(score_sum_exp, VALUE, LETTER)                                                  \
    DEVICE void fuse_load_sink(VALUE& v, int batch, int head) {                                   \
        asm volatile("// @fuse.load_sink v=%0 batch=%1 head=%2;"                                  \
                     : "+" LETTER(v) : "r"(batch), "r"(head));                                    \
    }                                                                                             \
    template <int Slot> DEVICE void fuse_score(VALUE& v, int batch, int head, int row, int col) { \
        asm volatile("// @fuse.score v=%0 batch=%1 head=%2 row=%3 col=%4 slot=%5;"                \
                     : "+" LETTER(v) : "r"(batch), "r"(head), "r"(row), "r"(col), "n"(Slot));     \
    }                                                                                             \
    template <int Slot> DEVICE void fuse_weight(VALUE& v, int batch, int head, int row, int col) { \
        asm volatile("// @fuse.weight v=%0 batch=%1 head=%2 row=%3 col=%4 slot=%5;"               \
                     : "+" LETTER(v) : "r"(batch), "r"(head), "r"(row), "r"(col), "n"(Slot));     \
    }
CYDNN_MARKS(float, "f")
CYDNN_MARKS(double, "d")
#undef CYDNN_MARKS
#undef CYDNN_ROW_MARK
#undef CYDNN_MARK
template <int Slot> DEVICE void fuse_row(int batch, int head, int row) {
    asm volatile("// @fuse.row batch=%0 head=%1 row=%2 slot=%3;"
                 :: "r"(batch), "r"(head), "r"(row), "n"(Slot));
}

// Dropout of weights: which are kept, by cydnn/ops/philox.py, and the factor of these. `octets` of each row.
template <class S> struct Dropout {
    Draw draw;
    Threshold than;
    S factor;
    int octets, heads, s_q;
    bool is_on;
    DEVICE Dropout(const Number<i64>& seed, const Number<i64>& offset, unsigned upper, unsigned lower,
                   S factor_, int heads_, int s_q_, int s_kv, int is_on_) {
        is_on = is_on_, factor = factor_, heads = heads_, s_q = s_q_, octets = (s_kv + 7) / 8;
        than = {upper, lower}, draw = {0, 0};
        if (is_on) draw = {(unsigned long long)seed.load(), (unsigned long long)offset.load()};
    }
    DEVICE static unsigned word(const uint4& four, int at) {
        const unsigned low = at & 1 ? four.y : four.x, high = at & 1 ? four.w : four.z;
        return at & 2 ? high : low;
    }
    template <int Slot> DEVICE S at(int batch, int head, int row, int col) const {
        S found = 1;
        fuse_weight<Slot>(found, batch, head, row, col);
        if (!is_on) return found;
        const i64 octet = ((i64(batch) * heads + head) * s_q + row) * octets + col / 8;
        const uint4 high = draw.words(octet, 0), low = draw.words(octet, 1);
        const int shift = col % 2 * 16;
        const unsigned upper = word(high, col % 8 / 2) >> shift & 0xFFFF;
        const unsigned lower = word(low, col % 8 / 2) >> shift & 0xFFFF;
        return upper > than.upper || upper == than.upper && lower >= than.lower ? found * factor : S(0);
    }
};

// A mask of blocks hides a key from a query: a bit for each 128 queries by 128 keys.
DEVICE bool hides(const unsigned char* blocks, const Array<i64, 4>& steps, int batch, int head, int row,
                  int key) {
    if (!blocks) return false;
    const int block = key / 128;
    return !(blocks[along(steps, batch, head, row / 128, block / 8)] >> block % 8 & 1);
}

// Where keys lie: in one piece, or in pages of `block` that a row of a table names. A page that there is not
// holds nothing.
struct Pages {
    const int* table;
    i64 step;
    int block, count;
    DEVICE Pages(const int* tables, int batch, const Array<i64, 2>& steps, const Array<int, 2>& size) {
        table = tables ? tables + batch * steps[0] : nullptr, step = steps[1];
        block = size[0], count = size[1];
    }
    DEVICE bool find(int& batch, int& key) const {
        if (!table) return true;
        batch = table[key / block * step], key %= block;
        return batch >= 0 && batch < count;
    }
};

// body(0) … body(Count - 1) with numbers that a mark can name.
template <int Value> struct Constant {
    DEVICE constexpr operator int() const { return Value; }
};
template <int Count, int First = 0, class Body> DEVICE void each(Body body) {
    if constexpr (First < Count) body(Constant<First>{}), each<Count, First + 1>(body);
}

}  // namespace cydnn
