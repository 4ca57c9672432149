/*@kernel
name   = "reduction_any_{FOLD}_{MATH}"
about  = "Reduce elements of any type on any strides; spliced code loads and stores."
FOLD   = ["sum", "prod", "top"]
MATH   = ["f32", "f64"]
when   = ["sm == 75 or FOLD == 'top'"]         # max.NaN
targets = ["sm_75", "sm_80"]
params = ["MATH* part", "int outputs", "int units", "int splits", "int width", "Array<FastDiv, 8> in_dims",
          "Array<int64_t, 8> in_strides", "Array<FastDiv, 8> out_dims", "Array<int64_t, 8> x_strides",
          "int how", "double count", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(outputs * splits, 256 // width)", 1, 1]
needs  = ["1 <= outputs < 2**30", "0 <= units < 2**30", "splits >= 1", "outputs * splits < 2**31",
          "width in (1, 2, 4, 8, 16, 32, 64, 128, 256)"]
marks  = ["load_x", "store"]
problems = [
    """reduction x=5x{'32' if FOLD == 'prod' else '251'}:i8 y=5x1:f64 \
       mode={'avg' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'min'} acc={MATH}""",
    """reduction x=5x251:{'i32' if MATH == f64 and FOLD != 'top' else 'f8_e5m2'} y=5x1:f16 \
       mode={'norm2' if FOLD == 'sum' else 'mul_no_zeros' if FOLD == 'prod' else 'amax'} acc={MATH}""",
    """reduction x=5x251:u8@260,1 y=5x1:i8 \
       mode={'norm1' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
    """reduction x=2x5x{'32' if FOLD == 'prod' else '5003'}:i8 y=2x1x1:i64 \
       mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
    """reduction x=2x2x3x2x2x2x2x5:i8@32768,11264,3584,1600,704,288,64,1 y=1x1x1x1x1x1x1x1:u8 \
       mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
    """reduction x=2x2x3x2x2x2x2x5:i8@32768,11264,3584,1600,704,288,64,1 \
       y=2x2x3x2x2x2x2x1:u8@32768,11264,3584,1600,704,288,64,1 \
       mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}"""]
@*/
// `width` neighbouring threads reduce one split of one output. load_x at `out` (the output, over the kept
// dims) and `in` (the element, over the reduced dims), store at `out`. With one split spliced code stores the
// result, else it goes to part[output][split] for another launch.
#include "folds.cuh"
#include "lib/reduce.cuh"
#include "space.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                    \
    DEVICE void fuse_load_x(VALUE& v, i64 off, unsigned out, unsigned in) {     \
        asm volatile("// @fuse.load_x v=%0 off=%1 out=%2 in=%3;"                \
                     : "+" LETTER(v) : "l"(off), "r"(out), "r"(in));            \
    }                                                                           \
    DEVICE void fuse_store(VALUE& v, unsigned out) {                            \
        asm volatile("// @fuse.store v=%0 out=%1;" : "+" LETTER(v) : "r"(out)); \
    }
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    MATH* part, int outputs, int units, int splits, int width, Array<FastDiv, 8> in_dims,
    Array<i64, 8> in_strides, Array<FastDiv, 8> out_dims, Array<i64, 8> x_strides, int how, double count,
    Fuse fuse) {
    constexpr int AHEAD = 4;                                  // loads in flight a thread, and running results
    __shared__ MATH parts[8];
    const int lane = threadIdx.x & (width - 1);
    const i64 job = i64(blockIdx.x) * (256 / width) + threadIdx.x / width;
    const bool inside = job < i64(outputs) * splits;
    const unsigned output = unsigned(job) / unsigned(splits), split = unsigned(job) % unsigned(splits);

    const Signs<MATH> signs(how);
    MATH chain[AHEAD];
    UNROLL for (int i = 0; i < AHEAD; ++i) chain[i] = FOLD::start<MATH>(how);
    if (inside) {
        const i64 base = offset_of(output, out_dims, x_strides);
        const int each = ceil_div(units, splits);
        const int begin = int(min(i64(units), i64(split) * each)), end = min(units, begin + each);
        for (int u = begin + lane; u < end; u += AHEAD * width) {
            MATH v[AHEAD];
            UNROLL for (int a = 0; a < AHEAD; ++a) {
                const int at = min(u + a * width, end - 1);        // the last are stand-ins
                v[a] = 0;
                fuse_load_x(v[a], base + offset_of(at, in_dims, in_strides), output, at);
            }
            UNROLL for (int a = 0; a < AHEAD; ++a) {
                if (u + a * width >= end) break;
                MATH one[1] = {v[a]};
                signs(Vec<MATH, 1>::of(one)).get(one);
                chain[a] = FOLD::take(chain[a], one[0], how);
            }
        }
    }
    MATH all = FOLD::join(FOLD::join(chain[0], chain[1]), FOLD::join(chain[2], chain[3]));

    for (int mask = min(width, 32) / 2; mask > 0; mask /= 2) all = FOLD::join(all, shuffle_xor(all, mask));
    if (width > 32) {
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = all;
        __syncthreads();
        for (int w = 1; lane == 0 && w < width / 32; ++w) all = FOLD::join(all, parts[threadIdx.x / 32 + w]);
    }
    if (!inside || lane) return;
    if (part) {
        part[job] = all;
        return;
    }
    MATH result = FOLD::finish(all, how, count);
    fuse_store(result, output);
}
