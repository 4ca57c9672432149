// Windows of resampling, which begin at fractions of cells, and marks of kernels of any type. Arrays of three
// are w h d, the innermost first.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

enum Kind { max_of, index_of, avg_of, linear_of };
enum Padding { zero_pad, neg_inf_pad, edge_pad };

#define VALUES_1(LETTER) "+" LETTER(v[0])
#define VALUES_8(LETTER)                                                                                \
    "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]), "+" LETTER(v[4]),           \
    "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])
#define LOAD(NAME, VALUE, LETTER)                                                                       \
    DEVICE void fuse_##NAME(VALUE (&v)[1], i64 off, unsigned col) {                                     \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 col=%2;" : VALUES_1(LETTER) : "l"(off), "r"(col)); \
    }                                                                                                   \
    DEVICE void fuse_##NAME(VALUE (&v)[8], i64 off, unsigned col) {                                     \
        asm volatile("// @fuse." #NAME " v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 col=%9;"                      \
                     : VALUES_8(LETTER) : "l"(off), "r"(col));                                          \
    }
#define STORE(NAME, VALUE, LETTER)                                                                      \
    DEVICE void fuse_##NAME(VALUE (&v)[1], i64 off, unsigned out) {                                     \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 out=%2;" : VALUES_1(LETTER) : "l"(off), "r"(out)); \
    }                                                                                                   \
    DEVICE void fuse_##NAME(VALUE (&v)[8], i64 off, unsigned out) {                                     \
        asm volatile("// @fuse." #NAME " v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 out=%9;"                      \
                     : VALUES_8(LETTER) : "l"(off), "r"(out));                                          \
    }
#define MARKS(VALUE, LETTER)        \
    LOAD(load_x, VALUE, LETTER)     \
    LOAD(load_dy, VALUE, LETTER)    \
    LOAD(load_index, VALUE, LETTER) \
    STORE(store, VALUE, LETTER)     \
    STORE(index, VALUE, LETTER)
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
#undef LOAD
#undef STORE
#undef VALUES_1
#undef VALUES_8

// Window o of one dim begins at (o * stride + begin) / units - lift cells, what is left being `share` units.
struct Axis {
    int size, window, stride, begin, lift;

    DEVICE int first(int o, const FastDiv& units, unsigned& share) const {
        return int(units.divmod(unsigned(o * stride + begin), share)) - lift;
    }
};
// A cell of a window along one dim.
struct Cell {
    int at;
    bool inside;
    DEVICE Cell(int cell, int size)
        : at(max(0, min(cell, size - 1))), inside(unsigned(cell) < unsigned(size)) {}
};

// The first largest cells of a window: load(v, d, h, w) gives those of some lanes.
template <class Value, int Lanes, class Load>
DEVICE void winners(Value (&best)[Lanes], int (&winner)[Lanes], const Axis (&axis)[3], const int (&first)[3],
                    int padding, int nan_wins, Load load) {
    UNROLL for (int i = 0; i < Lanes; ++i) best[i] = -Value(INFINITY), winner[i] = -1;
    int number = 0;
    NO_UNROLL for (int d = 0; d < axis[2].window; ++d)
        NO_UNROLL for (int h = 0; h < axis[1].window; ++h)
            NO_UNROLL for (int w = 0; w < axis[0].window; ++w, ++number) {
                const Cell z(first[2] + d, axis[2].size), y(first[1] + h, axis[1].size),
                    x(first[0] + w, axis[0].size);
                const bool inside = z.inside && y.inside && x.inside;
                if (!inside && padding == neg_inf_pad) continue;
                Value now[Lanes] = {};
                if (inside || padding == edge_pad) load(now, z.at, y.at, x.at);
                UNROLL for (int i = 0; i < Lanes; ++i) {
                    const bool more = now[i] > best[i] || winner[i] < 0;
                    const bool takes = nan_wins ? best[i] == best[i] && (now[i] != now[i] || more)
                                                : now[i] == now[i] && more;
                    if (takes) best[i] = now[i], winner[i] = number;
                }
            }
}

// Cells of one dim of a window that are inside.
DEVICE int inside_of(const Axis& axis, int first) {
    return max(0, min(axis.size, first + axis.window) - max(0, first));
}

}  // namespace cydnn
