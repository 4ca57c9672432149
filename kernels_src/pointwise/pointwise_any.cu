/*@kernel
name   = "pointwise_any_{V}_{LANES}"
about  = """Pointwise operations on any strides and types: spliced code reads, computes and writes; \
            four elements (or one byte of bits) a thread."""
V      = ["f32", "f64"]
LANES  = [1, 8]
params = ["int count", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 1024 if LANES == 1 else 2048)", 1, 1]
needs  = ["count >= 1"]
marks  = ["value", "store"]
problems = [
    "pointwise x=3x5x11:{V}@55,1,5 b=1x5x1:{V} y=3x5x11:{'bool' if LANES == 8 else 'i8'} mode=cmp_gt acc={V}",
    "{'pointwise x=3x3001:' + V + ' y=3x3001:bool mode=logical_not acc=' + V if LANES == 8 else ''}",
    """{'pointwise x=2x2x3x2x2x2x2x13:f16@32768,11264,3584,1600,704,288,64,1 \
       b=2x2x3x2x2x2x2x13:i8@1,2,4,12,24,48,96,192 y=2x2x3x2x2x2x2x13:' + V + '@1,3,7,22,45,91,183,400 \
       mode=add acc=' + V if LANES == 1 else ''}""",
    """{'pointwise x=2x3x1100:' + V + '@10000,1,3 b=1x3x1:bf16 y=2x3x1100:' + V + '@3500,1130,1 mode=add \
       acc=' + V if LANES == 1 else ''}"""]
@*/
// Element i has the linear index i over the dims, in the order of the main output's memory. `value` computes
// it and stores what is not the main output; `store` blends and stores that one. In one part, because four
// elements' loads should be under way before the first store. With 8 lanes a thread has 8 neighbours, which
// are a byte of a packed boolean.
#include "lib/types.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER)                                                                    \
    DEVICE void fuse_value(VALUE (&v)[1], unsigned i, i64 off) {                                \
        asm volatile("// @fuse.value v=%0 i=%1 off=%2;" : "+" LETTER(v[0]) : "r"(i), "l"(off)); \
    }                                                                                           \
    DEVICE void fuse_store(VALUE (&v)[1], unsigned i, i64 off) {                                \
        asm volatile("// @fuse.store v=%0 i=%1 off=%2;" : "+" LETTER(v[0]) : "r"(i), "l"(off)); \
    }                                                                                           \
    DEVICE void fuse_value(VALUE (&v)[8], unsigned i, i64 off) {                                \
        asm volatile("// @fuse.value v=%0,%1,%2,%3,%4,%5,%6,%7 i=%8 off=%9;"                    \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),  \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])   \
                     : "r"(i), "l"(off));                                                       \
    }                                                                                           \
    DEVICE void fuse_store(VALUE (&v)[8], unsigned i, i64 off) {                                \
        asm volatile("// @fuse.store v=%0,%1,%2,%3,%4,%5,%6,%7 i=%8 off=%9;"                    \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),  \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])   \
                     : "r"(i), "l"(off));                                                       \
    }
MARKS(float, "f")
MARKS(double, "d")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(int count, Fuse fuse) {
    if constexpr (LANES == 1) {
        const unsigned first = blockIdx.x * 1024 + threadIdx.x;
        if ((blockIdx.x + 1) * 1024 <= unsigned(count)) {
            // A full block: four elements' loads are under way at once.
            V v[4][1] = {};
            UNROLL for (int u = 0; u < 4; ++u) fuse_value(v[u], first + 256 * u, first + 256 * u);
            UNROLL for (int u = 0; u < 4; ++u) fuse_store(v[u], first + 256 * u, first + 256 * u);
        } else {
            NO_UNROLL for (unsigned i = first; i < unsigned(count); i += 256) {
                V v[1] = {};
                fuse_value(v, i, i);
                fuse_store(v, i, i);
            }
        }
    } else {
        const unsigned first = (blockIdx.x * 256 + threadIdx.x) * 8;
        if (first + 8 <= unsigned(count)) {
            V v[8] = {};
            fuse_value(v, first, first);
            fuse_store(v, first, first);
        } else {
            // A thread's own byte, begun with its first bit. All is read before a bit is written, as the
            // output may be the place of an input.
            __shared__ V tail[8];
            NO_UNROLL for (unsigned i = first; i < unsigned(count); ++i) {
                V v[1] = {};
                fuse_value(v, i, i);
                tail[i - first] = v[0];
            }
            NO_UNROLL for (unsigned i = first; i < unsigned(count); ++i) {
                V v[1] = {tail[i - first]};
                fuse_store(v, i, i);
            }
        }
    }
}
