// Marks: comments that the driver-side splicer (cydnn/fusion/) replaces by instructions. Left alone they cost nothing.
//
//   fuse_epilogue(v, off, col);
//       v    float or double accumulators [1, 2, 4, 8]: neighbours in the output's memory and in its channels.
//            The splicer may read and change them; they are final (scaled, blended) and not yet rounded.
//       off  offset in elements of v[0] from the start of the output tensor, strides applied
//       col  channel of v[0]
//     becomes   // @fuse.epilogue v=%f1,%f2,%f3,%f4 off=%rd7 col=%r9;
//     The kernel lists marks = ["epilogue"], and its last parameter is `Fuse fuse`, from where spliced code reads
//     its scalars and pointers.
//
//   FOLD_INT(R, p.r);      declares `int R = p.r`, marked  // @const R  after a mov.u32 that a plan may turn into a literal.
//                          FOLD_UINT alike. ptxas never folds a division: give FastDiv's mul and shr, not the divisor.
//
// One mark per vector, not per element (measured: 10 % more instructions otherwise). Call it with every thread's own
// valid data only: for a tail, mark element by element inside the bounds check with v[1].
#pragma once
#include "types.cuh"

namespace cydnn {

// Mark: the constraint letter of the accumulator ("f" or "d") is all that differs.
#define CYDNN_MARKS(VALUE, LETTER)                                                                                \
    DEVICE void fuse_epilogue(VALUE (&v)[1], i64 off, int col) {                                                   \
        asm volatile("// @fuse.epilogue v=%0 off=%1 col=%2;" : "+" LETTER(v[0]) : "l"(off), "r"(col));              \
    }                                                                                                              \
    DEVICE void fuse_epilogue(VALUE (&v)[2], i64 off, int col) {                                                   \
        asm volatile("// @fuse.epilogue v=%0,%1 off=%2 col=%3;"                                                    \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]) : "l"(off), "r"(col));                                   \
    }                                                                                                              \
    DEVICE void fuse_epilogue(VALUE (&v)[4], i64 off, int col) {                                                   \
        asm volatile("// @fuse.epilogue v=%0,%1,%2,%3 off=%4 col=%5;"                                              \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3])                      \
                     : "l"(off), "r"(col));                                                                        \
    }                                                                                                              \
    DEVICE void fuse_epilogue(VALUE (&v)[8], i64 off, int col) {                                                   \
        asm volatile("// @fuse.epilogue v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 col=%9;"                                  \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),                     \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])                      \
                     : "l"(off), "r"(col));                                                                        \
    }
CYDNN_MARKS(float, "f")
CYDNN_MARKS(double, "d")
#undef CYDNN_MARKS

#define FOLD_INT(NAME, VALUE) \
    int NAME;                 \
    asm("mov.u32 %0, %1; // @const " #NAME : "=r"(NAME) : "r"(int(VALUE)))
#define FOLD_UINT(NAME, VALUE) \
    unsigned NAME;             \
    asm("mov.u32 %0, %1; // @const " #NAME : "=r"(NAME) : "r"(unsigned(VALUE)))

}  // namespace cydnn
