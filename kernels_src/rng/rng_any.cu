/*@kernel
name   = "rng_any_{DIST}_{MATH}"
about  = "Random numbers of any type and strides, octets of a row by threads; spliced code stores."
DIST   = ["bernoulli", "uniform", "normal", "normal_fast"]
MATH   = ["f32", "f64"]
when   = ["MATH == f32 or DIST != 'normal_fast'"]
params = ["unsigned items", "FastDiv octets", "unsigned cols", "Number<int64_t> seed",
          "Number<int64_t> offset", "unsigned upper", "unsigned lower", "MATH base", "MATH scale",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 1024 if MATH == f32 else 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
marks  = ["store"]
problems = [
    """rng y=5x3x40:{'f64' if MATH == f64 else 'f32' if DIST == 'normal' else 'f16'} probability=0.3 low=-1 \
       distribution={'normal' if DIST == 'normal_fast' else DIST} acc={MATH}""",
    """rng y=3x7x13:{'f64' if MATH == f64 else 'f32' if DIST == 'normal' else 'i8'}@100,1,7 stdev=3 high=9 \
       distribution={'normal' if DIST == 'normal_fast' else DIST} acc={MATH}""",
    """rng y=2053:{'f64' if MATH == f64 else 'bf16' if DIST == 'normal_fast' else 'f32'} mean=2 \
       distribution={'normal' if DIST == 'normal_fast' else DIST} acc={MATH}""",
    """rng y=1100x8:{'f64' if MATH == f64 else 'f16' if DIST == 'normal_fast' else 'f32'} \
       distribution={'normal' if DIST == 'normal_fast' else DIST} acc={MATH}"""]
@*/
// An item is an octet of a row (cydnn/ops/philox.py, numbers); `octets` of each row. Two calls give the upper
// and the lower halves of its numbers. Octets of a thread share the keys of the rounds, and what the first
// rounds make of the draw alone. Fast normal numbers are for what is stored in 16 bits or less.
#include "lib/number.cuh"
#include "lib/philox.cuh"

constexpr int DIST_bernoulli = 0, DIST_uniform = 1, DIST_normal = 2, DIST_normal_fast = 3;
constexpr int EACH = sizeof(MATH) == 4 ? 4 : 1;        // octets of a thread
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

// Two numbers of 24 bits of neighbours, from a word of their upper and one of their lower halves.
DEVICE void numbers2(unsigned (&out)[2], unsigned high, unsigned low) {
    const unsigned some = low & 0xFF00FF00;
    out[0] = __byte_perm(high, some, 0x4105), out[1] = __byte_perm(high, some, 0x4327);
}

// A normal pair of (0, 1] and [0, 1).
DEVICE void normal2(float (&out)[2], const unsigned (&bits)[2]) {
    const float radius = sqrtf(-2.f * logf(float(bits[0] + 1) * 0x1p-24f));
    float s, c;
    sincospif(float(bits[1]) * 0x1p-23f, &s, &c);
    out[0] = radius * c, out[1] = radius * s;
}
DEVICE void normal2(double (&out)[2], const unsigned (&bits)[2]) {
    const double radius = sqrt(-2. * log(double(bits[0] + 1) * 0x1p-24));
    double s, c;
    sincospi(double(bits[1]) * 0x1p-23, &s, &c);
    out[0] = radius * c, out[1] = radius * s;
}
// The same to 2^-17 of a standard deviation. PTX ISA §lg2, §sqrt, §sin, §cos (.approx): these are best
// within half a turn, so the angle is one of the opposite point, and so is the radius.
DEVICE void normal2_fast(float (&out)[2], const unsigned (&bits)[2]) {
    float log, radius, s, c;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(float(bits[0] + 1) * 0x1p-24f));
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(radius) : "f"(-1.3862943611f * log));
    const float angle = fma(float(bits[1]), 3.7450702e-7f, -3.1415926536f);
    asm("sin.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(angle));
    asm("cos.approx.ftz.f32 %0, %1;" : "=f"(c) : "f"(angle));
    out[0] = -radius * c, out[1] = -radius * s;
}
}  // namespace cydnn

// Bernoulli numbers of octets, whose upper halves decide: one octet in 4096 asks for the lower ones.
DEVICE void kept_of(MATH (&v)[EACH][8], const Draw& draw, const i64 (&item)[EACH], Threshold t) {
    const unsigned than = t.upper * 0x10001, bound = t.upper << 16 | 0xFFFF;
    unsigned word[EACH][4], apart = ~0u;             // bits 15 and 31: all halves differ in their other bits
    UNROLL for (int e = 0; e < EACH; ++e) {
        const uint4 r = draw.words(item[e], 0);
        word[e][0] = r.x, word[e][1] = r.y, word[e][2] = r.z, word[e][3] = r.w;
    }
    UNROLL for (int e = 0; e < EACH; ++e) UNROLL for (int k = 0; k < 4; ++k) {
        v[e][2 * k] = word[e][k] * 65536u > bound, v[e][2 * k + 1] = word[e][k] > bound;
        apart &= ((word[e][k] ^ than) & 0x7FFF7FFF) + 0x7FFF7FFF;
    }
    if (!(~apart & 0x80008000)) return;
    UNROLL for (int e = 0; e < EACH; ++e) {
        const uint4 r = draw.words(item[e], 1);
        const unsigned more[4] = {r.x, r.y, r.z, r.w};
        UNROLL for (int k = 0; k < 4; ++k) {
            if ((word[e][k] & 0xFFFF) == t.upper && (more[k] & 0xFFFF) >= t.lower) v[e][2 * k] = 1;
            if (word[e][k] >> 16 == t.upper && more[k] >> 16 >= t.lower) v[e][2 * k + 1] = 1;
        }
    }
}

template <int Kind, class Value>
DEVICE void real_numbers(Value (&v)[8], const Draw& draw, i64 item, Value base, Value scale) {
    const uint4 high = draw.words(item, 0), low = draw.words(item, 1);
    const unsigned h[4] = {high.x, high.y, high.z, high.w}, l[4] = {low.x, low.y, low.z, low.w};
    const Value step = Kind == DIST_uniform ? scale * Value(0x1p-24) : scale;
    UNROLL for (int k = 0; k < 4; ++k) {
        unsigned bits[2];
        numbers2(bits, h[k], l[k]);
        Value two[2] = {Value(bits[0]), Value(bits[1])};
        if constexpr (Kind == DIST_normal) normal2(two, bits);
        if constexpr (Kind == DIST_normal_fast) normal2_fast(two, bits);
        v[2 * k] = fma(two[0], step, base), v[2 * k + 1] = fma(two[1], step, base);
    }
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    unsigned items, FastDiv octets, unsigned cols, Number<int64_t> seed, Number<int64_t> offset,
    unsigned upper, unsigned lower, MATH base, MATH scale, Fuse fuse) {
    constexpr int dist = JOIN(DIST_, DIST);
    const unsigned first = blockIdx.x * (256 * EACH) + threadIdx.x;
    const Draw draw = {(unsigned long long)seed.load(), (unsigned long long)offset.load()};
    i64 item[EACH];
    UNROLL for (int e = 0; e < EACH; ++e) item[e] = min(first + 256 * e, items - 1);
    MATH v[EACH][8];
    if constexpr (dist == DIST_bernoulli) kept_of(v, draw, item, {upper, lower});
    else UNROLL for (int e = 0; e < EACH; ++e) real_numbers<dist>(v[e], draw, item[e], base, scale);
    UNROLL for (int e = 0; e < EACH; ++e) {
        if (first + 256 * e >= items) return;
        unsigned octet;
        const unsigned row = octets.divmod(unsigned(item[e]), octet), col = octet * 8;
        if (col + 8 <= cols) fuse_store(v[e], row, col);
        else UNROLL for (int i = 0; i < 8; ++i)
            if (col + i < cols) {
                MATH one[1] = {v[e][i]};
                fuse_store(one, row, col + i);
            }
    }
}
