/*@kernel
name   = "rope_any_{FORM}_{MATH}_{LANES}"
about  = "Pairs of any type and strides, turned: {LANES} neighbours a thread; spliced code loads and stores."
FORM   = ["half", "interleaved"]
MATH   = ["f32", "f64"]
LANES  = [1, 8]
params = ["unsigned items", "FastDiv per_row", "unsigned turned", "unsigned pairs", "MATH sign", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
marks  = ["load_x", "load_cos", "load_sin", "store"]
problems = [
    """rope x=2x3x7x{48 if LANES == 8 else 11}:{'f16' if MATH == f32 else 'f64'} \
       cos=1x1x7x{16 if LANES == 8 else 5}:{'f32' if MATH == f32 else 'f64'} \
       sin=1x1x7x{16 if LANES == 8 else 5}:{'f32' if MATH == f32 else 'f64'} pairing={FORM} acc={MATH}""",
    """rope x=5x6x{32 if LANES == 8 else 6}:{'bf16' if MATH == f32 else 'f64'}@{'1,5,30' if LANES == 1 else \
       '200,32,1'} cos=5x1x{16 if LANES == 8 else 3}:f32 sin=5x1x{16 if LANES == 8 else 3}:f32 \
       y=5x6x{32 if LANES == 8 else 6}:{'f32' if MATH == f32 else 'f64'} inverse=1 pairing={FORM} \
       acc={MATH}"""]
@*/
// An item is LANES pairs of a row (half: two vectors, apart by `pairs`; interleaved: neighbours), or behind
// the `turned` items LANES elements that stay. sign: -1 turns back.
#include "lib/types.cuh"

constexpr int FORM_half = 0, FORM_interleaved = 1;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

namespace cydnn {
#define MARK(NAME, VALUE, LETTER)                                                                     \
    DEVICE void fuse_##NAME(VALUE (&v)[1], unsigned row, unsigned col) {                              \
        asm volatile("// @fuse." #NAME " v=%0 row=%1 col=%2;"                                         \
                     : "+" LETTER(v[0]) : "r"(row), "r"(col));                                        \
    }                                                                                                 \
    DEVICE void fuse_##NAME(VALUE (&v)[8], unsigned row, unsigned col) {                              \
        asm volatile("// @fuse." #NAME " v=%0,%1,%2,%3,%4,%5,%6,%7 row=%8 col=%9;"                    \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),        \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])         \
                     : "r"(row), "r"(col));                                                           \
    }
#define MARKS(VALUE, LETTER)                                                                          \
    MARK(load_x, VALUE, LETTER) MARK(load_cos, VALUE, LETTER) MARK(load_sin, VALUE, LETTER)           \
    MARK(store, VALUE, LETTER)
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
#undef MARK
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    unsigned items, FastDiv per_row, unsigned turned, unsigned pairs, MATH sign, Fuse fuse) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned at;
    const unsigned row = per_row.divmod(item, at);
    MATH a[LANES] = {}, b[LANES] = {}, c[LANES] = {}, s[LANES] = {};
    if (at >= turned) {
        const unsigned col = 2 * pairs + (at - turned) * LANES;
        fuse_load_x(a, row, col);
        fuse_store(a, row, col);
        return;
    }
    const unsigned pair = at * LANES;
    const bool is_half = JOIN(FORM_, FORM) == FORM_half;
    const unsigned first = is_half ? pair : 2 * pair, second = is_half ? pair + pairs : 2 * pair + LANES;
    fuse_load_x(a, row, first);
    fuse_load_x(b, row, second);
    fuse_load_cos(c, row, pair);
    fuse_load_sin(s, row, pair);
    MATH low[LANES], high[LANES];
    UNROLL for (int i = 0; i < LANES; ++i) {
        // Of neighbours, the 2 * LANES elements of both vectors are pairs side by side.
        const int e = 2 * i;
        const MATH x1 = is_half ? a[i] : e < LANES ? a[e % LANES] : b[e % LANES];
        const MATH x2 = is_half ? b[i] : e + 1 < LANES ? a[(e + 1) % LANES] : b[(e + 1) % LANES];
        const MATH turn = sign * s[i], y1 = x1 * c[i] - x2 * turn, y2 = x2 * c[i] + x1 * turn;
        if (is_half) low[i] = y1, high[i] = y2;
        else {
            if (e < LANES) low[e % LANES] = y1;
            else high[e % LANES] = y1;
            if (e + 1 < LANES) low[(e + 1) % LANES] = y2;
            else high[(e + 1) % LANES] = y2;
        }
    }
    fuse_store(low, row, first);
    fuse_store(high, row, second);
}
