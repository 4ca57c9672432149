// Marks: comments that the driver-side splicer (cydnn/fusion/) replaces by instructions. Left alone they
// cost nothing.
//
//   fuse_epilogue(v, off, col);              becomes   // @fuse.epilogue v=%f1,%f2 off=%rd7 col=%r9;
//   fuse_epilogue(v, off, row, col);                                         … row=%r8 col=%r9;
//   fuse_epilogue(v, off, batch, row, col);                                  … batch=%r7 row=%r8 col=%r9;
//   fuse_vector(v, off, vec);                becomes   // @fuse.value v=%f1,%f2 off=%rd7 vec=%r8;
//       v    accumulators [1, 2, 4, 8]: neighbours in the output's memory and along `col`. The splicer may
//            read and change them; they are final (scaled, blended) and not yet rounded.
//       off  offset in elements of v[0] from the start of the output tensor, strides applied
//       row, col, batch   linear indices over dims of the output; which ones the host says
//            (fusion/site.py). What a kernel does not have at hand is left out: the offset says it too, and
//            a coordinate that is kept for a mark takes a register through the main loop
//            (matmul_simt_f32_t128x128 then spilled, and took 15 % longer).
//
// Kernels that take any type have marks of their own (load_x, load_w, load_a, load_b, value,
// store): spliced code loads and stores, and what they show is said where they stand. A mark of
// integers has the word `int` in front.
//
// The kernel lists the names of its marks (marks = ["epilogue"]), and its last parameter is `Fuse fuse`,
// which the splicer makes as large as its pointers and numbers need. Behind an epilogue the kernel stores, in
// the same block of the program: where spliced code stores in types that the kernel does not know, the
// splicer leaves these stores out.
//
// One mark per vector, not per element (measured: 10 % more instructions otherwise). Call it with every
// thread's own valid data only: for a tail, mark element by element inside the bounds check with v[1].
#pragma once
#include "types.cuh"

namespace cydnn {

// The constraint letter of the accumulator ("f" or "d") is all that differs.
#define CYDNN_MARKS(VALUE, LETTER)                                                                         \
    DEVICE void fuse_epilogue(VALUE (&v)[1], i64 off, int col) {                                           \
        asm volatile("// @fuse.epilogue v=%0 off=%1 col=%2;" : "+" LETTER(v[0]) : "l"(off), "r"(col));     \
    }                                                                                                      \
    DEVICE void fuse_epilogue(VALUE (&v)[4], i64 off, int col) {                                           \
        asm volatile("// @fuse.epilogue v=%0,%1,%2,%3 off=%4 col=%5;"                                      \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3])              \
                     : "l"(off), "r"(col));                                                                \
    }                                                                                                      \
    DEVICE void fuse_epilogue(VALUE (&v)[8], i64 off, int col) {                                           \
        asm volatile("// @fuse.epilogue v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 col=%9;"                          \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),             \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])              \
                     : "l"(off), "r"(col));                                                                \
    }                                                                                                      \
    DEVICE void fuse_epilogue(VALUE (&v)[1], i64 off, int row, int col) {                                  \
        asm volatile("// @fuse.epilogue v=%0 off=%1 row=%2 col=%3;"                                        \
                     : "+" LETTER(v[0]) : "l"(off), "r"(row), "r"(col));                                   \
    }                                                                                                      \
    DEVICE void fuse_epilogue(VALUE (&v)[1], i64 off, int batch, int row, int col) {                       \
        asm volatile("// @fuse.epilogue v=%0 off=%1 batch=%2 row=%3 col=%4;"                               \
                     : "+" LETTER(v[0]) : "l"(off), "r"(batch), "r"(row), "r"(col));                       \
    }                                                                                                      \
    DEVICE void fuse_vector(VALUE (&v)[1], i64 off, unsigned vec) {                                        \
        asm volatile("// @fuse.value v=%0 off=%1 vec=%2;" : "+" LETTER(v[0]) : "l"(off), "r"(vec));        \
    }                                                                                                      \
    DEVICE void fuse_vector(VALUE (&v)[2], i64 off, unsigned vec) {                                        \
        asm volatile("// @fuse.value v=%0,%1 off=%2 vec=%3;"                                               \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]) : "l"(off), "r"(vec));                           \
    }                                                                                                      \
    DEVICE void fuse_vector(VALUE (&v)[4], i64 off, unsigned vec) {                                        \
        asm volatile("// @fuse.value v=%0,%1,%2,%3 off=%4 vec=%5;"                                         \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3])              \
                     : "l"(off), "r"(vec));                                                                \
    }                                                                                                      \
    DEVICE void fuse_vector(VALUE (&v)[8], i64 off, unsigned vec) {                                        \
        asm volatile("// @fuse.value v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 vec=%9;"                             \
                     : "+" LETTER(v[0]), "+" LETTER(v[1]), "+" LETTER(v[2]), "+" LETTER(v[3]),             \
                       "+" LETTER(v[4]), "+" LETTER(v[5]), "+" LETTER(v[6]), "+" LETTER(v[7])              \
                     : "l"(off), "r"(vec));                                                                \
    }
CYDNN_MARKS(float, "f")
CYDNN_MARKS(double, "d")
#undef CYDNN_MARKS

// Sums of integers, which spliced code scales and stores.
DEVICE void fuse_epilogue(int (&v)[1], i64 off, int row, int col) {
    asm volatile("// @fuse.epilogue int v=%0 off=%1 row=%2 col=%3;"
                 : "+r"(v[0]) : "l"(off), "r"(row), "r"(col));
}
DEVICE void fuse_epilogue(int (&v)[1], i64 off, int batch, int row, int col) {
    asm volatile("// @fuse.epilogue int v=%0 off=%1 batch=%2 row=%3 col=%4;"
                 : "+r"(v[0]) : "l"(off), "r"(batch), "r"(row), "r"(col));
}

}  // namespace cydnn
