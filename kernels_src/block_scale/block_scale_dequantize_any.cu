/*@kernel
name   = "block_scale_dequantize_any_{MATH}"
about  = "Elements of any type times the scale of their block; spliced code loads and stores."
MATH   = ["f32", "f64"]
params = ["unsigned items", "Array<FastDiv, 8> digits", "Array<FastDiv, 8> blocks",
          "Array<int64_t, 8> steps", "int row", "int col", "unsigned columns", "int pairs",
          "Array<unsigned, 8> turns", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
marks  = ["load_x", "load_scale", "store"]
problems = [
    """block_scale_dequantize x=3x5x70:{'f8_e4m3' if MATH == f32 else 'f64'} scale=3x5x3:f8_e8m0 \
       y=3x5x70:{'f16' if MATH == f32 else 'f64'} acc={MATH}""",
    """block_scale_dequantize x=2x33x130:f8_e5m2@4290,1,33 scale=2x4x256:f8_e4m3@1024,1,4 \
       y=2x33x130:{MATH}@5000,140,1 block=16,1 is_tiled=True acc={MATH}""",
    """block_scale_dequantize x=4x33x24:u8 scale=4x33x3:f8_e4m3 y=4x33x48:{MATH} block=16 pairs=2 \
       acc={MATH}""",
    """block_scale_dequantize x=2x24x33:u8@792,1,24 scale=2x4x128:f8_e4m3@512,1,4 block=16,1 is_tiled=True \
       y=2x48x33:{MATH} pairs=1 acc={MATH}""",
    "block_scale_dequantize x=7x9x2x3x2:i8 scale=4x3x2x1x2:f32 block=2,3,1,4,1 y=7x9x2x3x2:{MATH} acc={MATH}"]
@*/
// Digits of an item, the last dim first; the scale lies at their blocks by steps, or where col says which of
// them is its column in tiles, and row its row. Where pairs is a digit x has two numbers a byte along it, and
// `turns` say how far neighbours are apart in the index of a byte. load_x at the item or its byte, store at
// the item, load_scale at its offset.
#include "block_scale/tiles.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                                   \
    DEVICE void fuse_load_x(VALUE& v, unsigned row) {                                          \
        asm volatile("// @fuse.load_x v=%0 row=%1;" : "+" LETTER(v) : "r"(row));               \
    }                                                                                          \
    DEVICE void fuse_load_scale(VALUE& v, i64 off) {                                           \
        asm volatile("// @fuse.load_scale v=%0 off=%1;" : "+" LETTER(v) : "l"(off));           \
    }                                                                                          \
    DEVICE void fuse_store(VALUE& v, unsigned row) {                                           \
        asm volatile("// @fuse.store v=%0 row=%1;" : "+" LETTER(v) : "r"(row));                \
    }
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    unsigned items, Array<FastDiv, 8> digits, Array<FastDiv, 8> blocks, Array<i64, 8> steps, int row, int col,
    unsigned columns, int pairs, Array<unsigned, 8> turns, Fuse fuse) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned rest = item, tile_row = 0, tile_col = 0, byte = 0, half = 0;
    i64 off = 0;
    UNROLL for (int k = 0; k < 8; ++k) {
        unsigned digit;
        rest = digits[k].divmod(rest, digit);
        byte += (k == pairs ? digit / 2 : digit) * turns[k];
        if (k == pairs) half = digit % 2;
        digit = blocks[k].div(digit);
        off += digit * steps[k];
        if (k == row) tile_row = digit;
        if (k == col) tile_col = digit;
    }
    if (col >= 0) off += in_tiles(tile_row, tile_col, columns);
    MATH x = 0, scale = 0;
    fuse_load_x(x, pairs < 0 ? item : byte);
    if (pairs >= 0) x = f4_value(unsigned(x) >> 4 * half);
    fuse_load_scale(scale, off);
    x *= scale;
    fuse_store(x, item);
}
