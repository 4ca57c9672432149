// Products of a warpgroup of other widths, and the way out across of those whose columns are pixels.
//
//   Wgmma<f16, 192>, <f16, 240>     as those of lib/hopper.cuh
//   stmatrix_x4_trans(address, r)   the reverse of ldmatrix_x4_trans: pairs of a row become pairs of a column
#pragma once
#include "lib/hopper.cuh"

namespace cydnn {

#define CYDNN_NAMES_96                                                                     \
    CYDNN_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"     \
    "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define CYDNN_NAMES_120                                                                    \
    CYDNN_NAMES_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,"   \
    "%110,%111,%112,%113,%114,%115,%116,%117,%118,%119"
#define CYDNN_SUMS_96(I) CYDNN_SUMS_64(I), CYDNN_SUMS_32(I + 64)
#define CYDNN_SUMS_120(I) CYDNN_SUMS_96(I), CYDNN_SUMS_16(I + 96), CYDNN_SUMS_8(I + 112)
#define CYDNN_WGMMA_WIDE(ELEM, N, SUMS, A, B, KEEP, TRANS_A, TRANS_B)                      \
    template <> struct Wgmma<ELEM, N> {                                                    \
        template <int TransA, int TransB>                                                  \
        static DEVICE void add(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {      \
            asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " KEEP ", 0;\n\t"            \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #ELEM "." #ELEM  \
                         " {" CYDNN_NAMES_##SUMS "}, " A ", " B ", p, 1, 1, " TRANS_A ", "  \
                         TRANS_B ";\n\t}"                                                  \
                         : CYDNN_SUMS_##SUMS(0)                                            \
                         : "l"(a), "l"(b), "r"(keep), "n"(TransA), "n"(TransB));           \
        }                                                                                  \
    };
#define CYDNN_WGMMA_WIDE_OF(ELEM)                                                          \
    CYDNN_WGMMA_WIDE(ELEM, 192, 96, "%96", "%97", "%98", "%99", "%100")                    \
    CYDNN_WGMMA_WIDE(ELEM, 240, 120, "%120", "%121", "%122", "%123", "%124")
CYDNN_WGMMA_WIDE_OF(f16)
CYDNN_WGMMA_WIDE_OF(bf16)
#undef CYDNN_WGMMA_WIDE_OF
#undef CYDNN_WGMMA_WIDE

// PTX ISA §stmatrix: lane 8i + j gives the address of column j of matrix i.
DEVICE void stmatrix_x4_trans(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                 :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

}  // namespace cydnn
