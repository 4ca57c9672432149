// Products of a warpgroup whose first operand lies in registers.
//
//   WgmmaHeld<f16, N>::add<TransB>(d, a, b)    d (64 x N) += a @ b, 16 of the depth; a: a warp's 16 rows as
//                                              mma_m16n8k16 has them, not to change before it was waited for
//   wgmma_fence()                              wgmma_begin for several arrays of sums
#pragma once
#include "lib/hopper.cuh"

namespace cydnn {

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// PTX ISA §wgmma.mma_async
template <class Elem, int N> struct WgmmaHeld;

#define CYDNN_NAMES_12 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11"
#define CYDNN_NAMES_16 CYDNN_NAMES_12 ",%12,%13,%14,%15"
#define CYDNN_NAMES_20 CYDNN_NAMES_16 ",%16,%17,%18,%19"
#define CYDNN_NAMES_28 CYDNN_NAMES_20 ",%20,%21,%22,%23,%24,%25,%26,%27"
#define CYDNN_SUMS_4(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])
#define CYDNN_SUMS_12(I) CYDNN_SUMS_8(I), CYDNN_SUMS_4(I + 8)
#define CYDNN_SUMS_16(I) CYDNN_SUMS_8(I), CYDNN_SUMS_8(I + 8)
#define CYDNN_SUMS_20(I) CYDNN_SUMS_16(I), CYDNN_SUMS_4(I + 16)
#define CYDNN_SUMS_28(I) CYDNN_SUMS_20(I), CYDNN_SUMS_8(I + 20)
#define CYDNN_WGMMA_HELD(ELEM, N, SUMS, A, B, TRANS_B)                                     \
    template <> struct WgmmaHeld<ELEM, N> {                                                \
        template <int TransB>                                                              \
        static DEVICE void add(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b) {     \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.b32 p, 0, 0;\n\t"                   \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #ELEM "." #ELEM  \
                         " {" CYDNN_NAMES_##SUMS "}, {" A "}, " B ", p, 1, 1, " TRANS_B     \
                         ";\n\t}"                                                          \
                         : CYDNN_SUMS_##SUMS(0)                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TransB)); \
        }                                                                                  \
    };
#define CYDNN_WGMMA_HELD_OF(ELEM)                                                          \
    CYDNN_WGMMA_HELD(ELEM, 24, 12, "%12,%13,%14,%15", "%16", "%17")                        \
    CYDNN_WGMMA_HELD(ELEM, 32, 16, "%16,%17,%18,%19", "%20", "%21")                        \
    CYDNN_WGMMA_HELD(ELEM, 40, 20, "%20,%21,%22,%23", "%24", "%25")                        \
    CYDNN_WGMMA_HELD(ELEM, 56, 28, "%28,%29,%30,%31", "%32", "%33")
CYDNN_WGMMA_HELD_OF(f16)
CYDNN_WGMMA_HELD_OF(bf16)
#undef CYDNN_WGMMA_HELD_OF
#undef CYDNN_WGMMA_HELD

}  // namespace cydnn
