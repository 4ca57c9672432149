// What the convolutions of any type share: points of the images and of the filter, and the
// marks that load and store.
#pragma once
#include "tile/main.cuh"

namespace cydnn {

enum AnyFlags {
    CHANNEL_INNER = 1,      // channels run faster than taps
    X_ALONG_DEPTH = 2,      // neighbouring lanes load neighbouring depths of the image operand
    W_ALONG_DEPTH = 4,      // and of the other one
    OUT_ALONG_ROWS = 8,     // and store neighbouring rows
    DATA_GRADIENT = 16,
    FLIPPED = 32,           // the filter is read (or written) backwards
};

// Channel (or filter) and three more coordinates of one depth index; what does not exist has `c` below 0.
struct alignas(16) Point {
    int c, z[3];
};

#define CYDNN_CONV_MARKS(VALUE, LETTER, WORD)                                             \
    DEVICE void fuse_load_x(VALUE& v, i64 off, int n, int c, int d, int h, int w) {       \
        asm volatile("// @fuse.load_x " WORD "v=%0 off=%1 n=%2 c=%3 d=%4 h=%5 w=%6;"      \
                     : "+" LETTER(v) : "l"(off), "r"(n), "r"(c), "r"(d), "r"(h), "r"(w)); \
    }                                                                                     \
    DEVICE void fuse_load_w(VALUE& v, i64 off, int k, int c, int t, int r, int s) {       \
        asm volatile("// @fuse.load_w " WORD "v=%0 off=%1 k=%2 c=%3 d=%4 h=%5 w=%6;"      \
                     : "+" LETTER(v) : "l"(off), "r"(k), "r"(c), "r"(t), "r"(r), "r"(s)); \
    }                                                                                     \
    DEVICE void fuse_store(VALUE (&v)[1], i64 off, int row, int col) {                    \
        asm volatile("// @fuse.store " WORD "v=%0 off=%1 row=%2 col=%3;"                  \
                     : "+" LETTER(v[0]) : "l"(off), "r"(row), "r"(col));                  \
    }
CYDNN_CONV_MARKS(float, "f", "")
CYDNN_CONV_MARKS(double, "d", "")
CYDNN_CONV_MARKS(int, "r", "int ")
#undef CYDNN_CONV_MARKS

// A mixed-radix number: the last digit of `rest` over channels x taps, the channels fastest or slowest.
DEVICE Point point_of(unsigned rest, const FastDiv& channels, const Array<FastDiv, 3>& taps,
                      bool channel_inner) {
    Point p;
    unsigned digit;
    if (channel_inner) rest = channels.divmod(rest, digit), p.c = digit;
    UNROLL for (int i = 2; i >= 0; --i) {
        if (i == 0 && channel_inner) digit = rest;
        else rest = taps[i].divmod(rest, digit);
        p.z[i] = digit;
    }
    if (!channel_inner) p.c = rest;
    return p;
}

}  // namespace cydnn
