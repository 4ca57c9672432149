// What attention needs of Hopper's tensor cores beside lib/hopper.cuh.
//
//   WgmmaOfRegisters<f16, N>::add(d, a, b)   d (64 x N) += a @ b; a (64 x 16) in registers, as neighbours of
//                                            the sums of another product lie; b n-major (swizzled_panel)
//   Wgmma<f16, 48>, 80, 96                   as those of lib/hopper.cuh
//   group_wait(group)                        a barrier of the threads of a warpgroup that multiplies
//   turn_wait(group), turn_give(group)       one warpgroup waits until the one before it gives it the turn
//   wgmma_fence()                            products behind it see what registers hold
//   panel_on(panel, bytes)                   the descriptor of what lies so many bytes further on
//   barrier_try(b, parity)                   whether the phase of this parity has ended
//   exp2_near(x)                             2^x, PTX ISA §ex2
#pragma once
#include "lib/hopper.cuh"

namespace cydnn {

#define CYDNN_NAMES_24 CYDNN_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define CYDNN_NAMES_40 CYDNN_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define CYDNN_NAMES_48 CYDNN_NAMES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define CYDNN_SUMS_24(I) CYDNN_SUMS_16(I), CYDNN_SUMS_8(I + 16)
#define CYDNN_SUMS_40(I) CYDNN_SUMS_32(I), CYDNN_SUMS_8(I + 32)
#define CYDNN_SUMS_48(I) CYDNN_SUMS_32(I), CYDNN_SUMS_16(I + 32)

// PTX ISA §wgmma.mma_async: A from registers has no transpose flag.
template <class Elem, int N> struct WgmmaOfRegisters;
#define CYDNN_WGMMA_REGISTERS(ELEM, N, SUMS, A, B)                                                \
    template <> struct WgmmaOfRegisters<ELEM, N> {                                                \
        static DEVICE void add(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b) {           \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #ELEM "." #ELEM         \
                         " {" CYDNN_NAMES_##SUMS "}, {" A "}, " B ", 1, 1, 1, 1;"                 \
                         : CYDNN_SUMS_##SUMS(0)                                                  \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
        }                                                                                        \
    };
#define CYDNN_WGMMA_SHARED(ELEM, N, SUMS, A, B, KEEP, TRANS_A, TRANS_B)                           \
    template <> struct Wgmma<ELEM, N> {                                                          \
        template <int TransA, int TransB>                                                        \
        static DEVICE void add(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {            \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " KEEP ", 0;\n\t"                  \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #ELEM "." #ELEM        \
                         " {" CYDNN_NAMES_##SUMS "}, " A ", " B ", p, 1, 1, " TRANS_A ", "        \
                         TRANS_B ";\n\t}"                                                        \
                         : CYDNN_SUMS_##SUMS(0)                                                  \
                         : "l"(a), "l"(b), "r"(keep), "n"(TransA), "n"(TransB));                 \
        }                                                                                        \
    };
#define CYDNN_WGMMA_ATTENTION(ELEM)                                                               \
    CYDNN_WGMMA_REGISTERS(ELEM, 64, 32, "%32,%33,%34,%35", "%36")                                 \
    CYDNN_WGMMA_REGISTERS(ELEM, 128, 64, "%64,%65,%66,%67", "%68")                                \
    CYDNN_WGMMA_REGISTERS(ELEM, 256, 128, "%128,%129,%130,%131", "%132")                          \
    CYDNN_WGMMA_SHARED(ELEM, 48, 24, "%24", "%25", "%26", "%27", "%28")                           \
    CYDNN_WGMMA_SHARED(ELEM, 80, 40, "%40", "%41", "%42", "%43", "%44")                           \
    CYDNN_WGMMA_SHARED(ELEM, 96, 48, "%48", "%49", "%50", "%51", "%52")
CYDNN_WGMMA_ATTENTION(f16)
CYDNN_WGMMA_ATTENTION(bf16)
#undef CYDNN_WGMMA_ATTENTION
#undef CYDNN_WGMMA_SHARED
#undef CYDNN_WGMMA_REGISTERS

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// PTX ISA §bar: the threads of a warpgroup; those of a warpgroup that enters and of the one that lets it.
DEVICE void group_wait(int group) { asm volatile("bar.sync %0, 128;" :: "r"(1 + group) : "memory"); }
DEVICE void turn_wait(int group) { asm volatile("bar.sync %0, 256;" :: "r"(8 + group) : "memory"); }
DEVICE void turn_give(int group) { asm volatile("bar.arrive %0, 256;" :: "r"(8 + group) : "memory"); }

// Only the low word changes, so that descriptors stay in uniform registers.
DEVICE uint64_t panel_on(uint64_t panel, int bytes) {
    return panel & 0xFFFFFFFF00000000ull | unsigned(unsigned(panel) + bytes / 16);
}

// PTX ISA §mbarrier.try_wait
DEVICE bool barrier_try(uint64_t* b, unsigned parity) {
    unsigned done;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
    return done;
}

DEVICE float exp2_near(float x) {
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace cydnn
