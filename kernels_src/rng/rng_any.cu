/*@kernel
name   = "rng_any_{DIST}_{MATH}"
about  = "Random numbers of any type and strides, eight neighbours of a row a thread; spliced code stores."
DIST   = ["bernoulli", "uniform", "normal"]
MATH   = ["f32", "f64"]
params = ["unsigned items", "FastDiv octets", "unsigned cols", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "MATH base", "MATH scale",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
marks  = ["store"]
problems = [
    "rng y=5x3x40:{'f16' if MATH == f32 else 'f64'} distribution={DIST} probability=0.3 low=-1 acc={MATH}",
    "rng y=3x7x13:{'i8' if MATH == f32 else 'f64'}@100,1,7 distribution={DIST} stdev=3 high=9 acc={MATH}",
    "rng y=2053:{'f32' if MATH == f32 else 'f64'} distribution={DIST} mean=2 acc={MATH}"]
@*/
// An item is an octet of a row (cydnn/ops/philox.py, numbers); `octets` of each row. Two calls give the upper
// and the lower halves of its numbers.
#include "lib/number.cuh"
#include "lib/philox.cuh"

constexpr int DIST_bernoulli = 0, DIST_uniform = 1, DIST_normal = 2;
#define JOIN_(A, B) A##B
#define JOIN(A, B) JOIN_(A, B)

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                                          \
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

// (0, 1] and [0, 1) of 24 bits, as a normal pair.
DEVICE void normal2(float (&out)[2], unsigned a, unsigned b) {
    const float radius = sqrtf(-2.f * logf(float((a >> 8) + 1) * 0x1p-24f));
    float s, c;
    sincospif(float(b >> 8) * 0x1p-23f, &s, &c);
    out[0] = radius * c, out[1] = radius * s;
}
DEVICE void normal2(double (&out)[2], unsigned a, unsigned b) {
    const double radius = sqrt(-2. * log(double((a >> 8) + 1) * 0x1p-24));
    double s, c;
    sincospi(double(b >> 8) * 0x1p-23, &s, &c);
    out[0] = radius * c, out[1] = radius * s;
}
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    unsigned items, FastDiv octets, unsigned cols, Number<int64_t> seed, Number<int64_t> offset,
    unsigned upper, unsigned lower, MATH base, MATH scale, Fuse fuse) {
    constexpr int dist = JOIN(DIST_, DIST);
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned octet;
    const unsigned row = octets.divmod(item, octet), col = octet * 8;
    const Draw draw = {(unsigned long long)seed.load(), (unsigned long long)offset.load()};
    MATH v[8];
    if constexpr (dist == DIST_bernoulli) {
        const unsigned bits = draw.kept(item, {upper, lower}).bits();
        UNROLL for (int i = 0; i < 8; ++i) v[i] = MATH(bits >> i & 1);
    } else {
        const uint4 high = draw.words(item, 0), low = draw.words(item, 1);
        const unsigned h[4] = {high.x, high.y, high.z, high.w}, l[4] = {low.x, low.y, low.z, low.w};
        UNROLL for (int k = 0; k < 4; ++k) {
            const unsigned a = h[k] << 16 | (l[k] & 0xFFFF), b = (h[k] & 0xFFFF0000) | l[k] >> 16;
            MATH two[2] = {MATH(a >> 8) * MATH(0x1p-24), MATH(b >> 8) * MATH(0x1p-24)};
            if constexpr (dist == DIST_normal) normal2(two, a, b);
            v[2 * k] = fma(two[0], scale, base), v[2 * k + 1] = fma(two[1], scale, base);
        }
    }
    if (col + 8 <= cols) {
        fuse_store(v, row, col);
        return;
    }
    UNROLL for (int i = 0; i < 8; ++i)
        if (col + i < cols) {
            MATH one[1] = {v[i]};
            fuse_store(one, row, col + i);
        }
}
