// The marks of the attention kernels of any type, at batch, head and row of q:
//
//   load_q depth     load_k, load_v at head and key of theirs, and depth or col: spliced code loads
//   row              before the keys, once; score col: changes one score
//   store col        spliced code stores; stats: the logarithm of a row's sum
//
// `row` and `score` name the number of the row in its thread, which is the slot of what is kept.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

#define CYDNN_MARK(NAME, VALUE, LETTER, ROW, COL)                                            \
    DEVICE void fuse_##NAME(VALUE& v, i64 off, int batch, int head, int row, int col) {      \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 batch=%2 head=%3 " ROW "=%4 " COL "=%5;" \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row), "r"(col)); \
    }
#define CYDNN_MARKS(VALUE, LETTER)                                                                \
    CYDNN_MARK(load_q, VALUE, LETTER, "row", "depth")                                             \
    CYDNN_MARK(load_k, VALUE, LETTER, "key", "depth")                                             \
    CYDNN_MARK(load_v, VALUE, LETTER, "key", "col")                                               \
    CYDNN_MARK(store, VALUE, LETTER, "row", "col")                                                \
    DEVICE void fuse_stats(VALUE& v, i64 off, int batch, int head, int row) {                     \
        asm volatile("// @fuse.stats v=%0 off=%1 batch=%2 head=%3 row=%4;"                        \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row));                \
    }                                                                                             \
    template <int Slot> DEVICE void fuse_score(VALUE& v, int batch, int head, int row, int col) { \
        asm volatile("// @fuse.score v=%0 batch=%1 head=%2 row=%3 col=%4 slot=%5;"                \
                     : "+" LETTER(v) : "r"(batch), "r"(head), "r"(row), "r"(col), "n"(Slot));     \
    }
CYDNN_MARKS(float, "f")
CYDNN_MARKS(double, "d")
#undef CYDNN_MARKS
#undef CYDNN_MARK
template <int Slot> DEVICE void fuse_row(int batch, int head, int row) {
    asm volatile("// @fuse.row batch=%0 head=%1 row=%2 slot=%3;"
                 :: "r"(batch), "r"(head), "r"(row), "n"(Slot));
}

// The offset of an element, by steps in this order.
DEVICE i64 along(const Array<i64, 4>& steps, int batch, int head, int row, int col) {
    return batch * steps[0] + head * steps[1] + row * steps[2] + col * steps[3];
}

// body(0) … body(Count - 1) with numbers that a mark can name.
template <int Value> struct Number {
    DEVICE constexpr operator int() const { return Value; }
};
template <int Count, int First = 0, class Body> DEVICE void each(Body body) {
    if constexpr (First < Count) body(Number<First>{}), each<Count, First + 1>(body);
}

}  // namespace cydnn
