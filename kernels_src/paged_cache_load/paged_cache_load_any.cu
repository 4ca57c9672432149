/*@kernel
name   = "paged_cache_load_any_{MATH}_{LANES}"
about  = """Rows of a cache by the numbers of their pages: {LANES} neighbours a thread; spliced code loads \
            and stores."""
MATH   = ["f32", "f64"]
LANES  = [1, 8]
params = ["const int* table", "const int* seq_len", "unsigned items", "Array<FastDiv, 3> digits",
          "FastDiv page",
          "int64_t table_b", "int64_t table_n", "int64_t seq_b", "Array<int64_t, 4> strides", "int pages",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
marks  = ["load", "store"]
problems = [
    """paged_cache_load container=6x2x4x{16 if LANES == 8 else 5}:{'f16' if MATH == f32 else 'f64'} \
       seq_len=3x1x1x1:i32 table=3x1x8x1:i32 acc={MATH}""",
    """paged_cache_load container=6x2x4x{8 if LANES == 8 else 3}:{'i8' if MATH == f32 else 'f64'}@nhwc \
       seq_len=3x1x1x1:i32@2,1,1,1 table=3x1x8x1:i32@9,1,1,1 y=3x2x30x{8 if LANES == 8 else 3}:\
{'bf16' if MATH == f32 else 'f64'}@500,250,8,1 acc={MATH}"""]
@*/
// Digits of an item, innermost first: vectors of a row, positions, heads; the batch is the rest. Strides of
// the container: page, head, position, element. A page that is not there gives zeros.
#include "lib/types.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                                          \
    DEVICE void fuse_load(VALUE (&v)[1], i64 off, unsigned col) {                                     \
        asm volatile("// @fuse.load v=%0 off=%1 col=%2;" : "+" LETTER(v[0]) : "l"(off), "r"(col));    \
    }                                                                                                 \
    DEVICE void fuse_load(VALUE (&v)[8], i64 off, unsigned col) {                                     \
        asm volatile("// @fuse.load v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 col=%9;"                         \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),        \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])         \
                     : "l"(off), "r"(col));                                                           \
    }                                                                                                 \
    DEVICE void fuse_store(VALUE (&v)[1], unsigned row, unsigned col) {                               \
        asm volatile("// @fuse.store v=%0 row=%1 col=%2;" : "+" LETTER(v[0]) : "r"(row), "r"(col));   \
    }                                                                                                 \
    DEVICE void fuse_store(VALUE (&v)[8], unsigned row, unsigned col) {                               \
        asm volatile("// @fuse.store v=%0,%1,%2,%3,%4,%5,%6,%7 row=%8 col=%9;"                        \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),        \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])         \
                     : "r"(row), "r"(col));                                                           \
    }
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const int* table, const int* seq_len, unsigned items, Array<FastDiv, 3> digits, FastDiv page, i64 table_b,
    i64 table_n, i64 seq_b, Array<i64, 4> strides, int pages, Fuse fuse) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned e[3], b = item;
    UNROLL for (int k = 0; k < 3; ++k) b = digits[k].divmod(b, e[k]);
    const unsigned row = digits[0].div(item), col = e[0] * LANES;
    MATH v[LANES] = {};
    if (int(e[1]) < seq_len[b * seq_b]) {
        unsigned place;
        const unsigned number = page.divmod(e[1], place);
        const int at = table[b * table_b + number * table_n];
        if (unsigned(at) < unsigned(pages))
            fuse_load(v, at * strides[0] + e[2] * strides[1] + place * strides[2] + col * strides[3],
                      col);
    }
    fuse_store(v, row, col);
}
