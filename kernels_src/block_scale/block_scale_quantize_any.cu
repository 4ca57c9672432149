/*@kernel
name   = "block_scale_quantize_any_{MATH}_{LANES}"
about  = """The scale of each block, and its elements by it: {LANES} lanes a block, of any types; spliced \
            code loads and stores."""
MATH   = ["f32", "f64"]
LANES  = [1, 32]
params = ["unsigned scales", "Array<FastDiv, 8> digits", "Array<unsigned, 8> dims",
          "Array<unsigned, 8> turns", "Array<int64_t, 8> steps", "int axis", "int row",
          "unsigned columns", "int block",
          "float most", "int mantissa", "float normal", "float step", "float least", "float highest",
          "int pairs", "Array<unsigned, 8> y_turns", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(scales, 256 // LANES)", 1, 1]
needs  = ["1 <= scales < 2**31", "block >= 1"]
marks  = ["load", "store_y", "store_scale"]
problems = [
    """block_scale_quantize x=3x5x70:{'f16' if MATH == f32 else 'f64'}\
@{'350,70,1' if LANES == 32 else '1,3,15'} y=3x5x70:f8_e5m2@350,70,1 scale=3x6x4:f8_e8m0@24,4,1 \
       to=f8_e5m2 acc={MATH}""",
    """block_scale_quantize x=2x33x130:{MATH}@4290,{'1,33' if LANES == 32 else '130,1'} block=16 axis=1 \
       scales=f8_e4m3 is_tiled=True y=2x33x130:f8_e4m3 scale=2x4x256:f8_e4m3@1024,1,4 acc={MATH}""",
    """block_scale_quantize x=3x5x70:{MATH}@{'350,70,1' if LANES == 32 else '1,3,15'} block=16 \
       to=f4_e2m1 scales=f8_e4m3 acc={MATH}""",
    """block_scale_quantize x=4x{'300' if LANES == 32 else '9'}:{MATH}{'' if LANES == 32 else '@1,4'} \
       block={'150' if LANES == 32 else '2'} to=i8 scales=f32 acc={MATH}"""]
@*/
// Digits of a scale, the last dim first: `dims` are those of x, `turns` how far neighbours along each are
// apart in the index of an element, `steps` in the memory of the scales, which lie in tiles where row says
// which digit is their row; that of the axis is their column. `most` is the largest value of y's type;
// where pairs is set two of its numbers lie in a byte along the axis, by y_turns in the index of a byte;
// the type of scales has so many bits of mantissa from `normal` on, and multiples of `step` below.
#include "block_scale/scale_of.cuh"
#include "block_scale/tiles.cuh"
#include "lib/math.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                                   \
    DEVICE void fuse_load(VALUE& v, unsigned row) {                                            \
        asm volatile("// @fuse.load v=%0 row=%1;" : "+" LETTER(v) : "r"(row));                 \
    }                                                                                          \
    DEVICE void fuse_store_y(VALUE& v, unsigned row) {                                         \
        asm volatile("// @fuse.store_y v=%0 row=%1;" : "+" LETTER(v) : "r"(row));              \
    }                                                                                          \
    DEVICE void fuse_store_scale(VALUE& v, i64 off) {                                          \
        asm volatile("// @fuse.store_scale v=%0 off=%1;" : "+" LETTER(v) : "l"(off));          \
    }
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    unsigned scales, Array<FastDiv, 8> digits, Array<unsigned, 8> dims, Array<unsigned, 8> turns,
    Array<i64, 8> steps, int axis, int row, unsigned columns, int block, float most, int mantissa,
    float normal, float step, float least, float highest, int pairs, Array<unsigned, 8> y_turns, Fuse fuse) {
    const unsigned item = (blockIdx.x * 256 + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (item >= scales) return;                   // a warp leaves whole where it has one block
    unsigned rest = item, first = 0, turn = 0, tile_row = 0, tile_col = 0, byte = 0, byte_turn = 0, size = 0;
    const unsigned pairs_of = unsigned(block) / 2;
    i64 off = 0;
    bool is_inside = true;
    UNROLL for (int k = 0; k < 8; ++k) {
        unsigned digit;
        rest = digits[k].divmod(rest, digit);
        off += digit * steps[k];
        const bool is_axis = k == axis;
        tile_row = k == row ? digit : tile_row, tile_col = is_axis ? digit : tile_col;
        turn = is_axis ? turns[k] : turn, byte_turn = is_axis ? y_turns[k] : byte_turn;
        size = is_axis ? dims[k] : size, is_inside &= is_axis | digit < dims[k];
        first += digit * (is_axis ? block : 1) * turns[k];
        byte += digit * (is_axis ? pairs_of : 1) * y_turns[k];
    }
    if (row >= 0) off += in_tiles(tile_row, tile_col, columns);
    const int count = is_inside ? min(i64(block), i64(size) - i64(tile_col) * block) : 0;

    MATH top = 0;
    for (int e = lane; e < count; e += LANES) {
        MATH x = 0;
        fuse_load(x, first + e * turn);
        const MATH size = x < 0 ? -x : x;
        top = larger(top, size);
    }
    if (LANES > 1)
        UNROLL for (int apart = 16; apart; apart /= 2) {
            top = larger(top, __shfl_xor_sync(~0u, top, apart));
        }
    const float scale = Scales{most, mantissa, normal, step, least, highest}.of(top);
    const int each = pairs ? 2 : 1;
    for (int e = lane * each; e < count; e += LANES * each) {
        MATH v[2] = {};
        NO_UNROLL for (int i = 0; i < each; ++i) {            // one mark
            MATH x = 0;
            fuse_load(x, first + (e + i) * turn);
            v[0] = v[1], v[1] = scale == 0 ? MATH(0) : x / MATH(scale);
        }
        MATH stored = pairs ? MATH(f4_code(v[0]) | f4_code(v[1]) << 4) : v[1];
        fuse_store_y(stored, pairs ? byte + e / 2 * byte_turn : first + e * turn);
    }
    if (lane == 0) {
        MATH stored = scale;
        fuse_store_scale(stored, off);
    }
}
