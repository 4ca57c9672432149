// Tensor cores and asynchronous copies, one function per instruction.
//
//   MmaElem<f16>                         a type of operands: its sums, and how many elements a line, an
//                                        instruction and a chunk have
//   shared_address(p)                    32-bit address for everything below
//   ldmatrix_x4(r, address)              four 8x8 matrices of 16-bit elements; …_trans: transposed
//   mma_m16n8<f16>(d, a, b)              d += a @ b, MmaElem<f16>::k of the depth; f16 from sm_75 (two k8
//                                        steps there), bf16 from sm_80
//   mma_m16n8k8_f16(d, a, b)             the native step of sm_75
//   mma_m8n8k4_f64(d, a, b)              sm_80
//   cp_async<16>(address, p, bytes)      global to shared, the part beyond `bytes` zero; 16, 8 or 4 bytes
//   cp_async_commit(), cp_async_wait<N>()
//
// Fragments of m16n8k16, g = lane / 4, t = lane % 4 (PTX ISA §Matrix Fragments for mma.m16n8k16);
// each name stands for a register of two elements or a value:
//
//        A (16 x 16, row)               B (16 x 8, col)               D (16 x 8)
//           k 2t,2t+1   k 2t+8,2t+9        n g                            n 2t   n 2t+1
//   m g       a[0]         a[2]           k 2t,   2t+1  b[0]       m g     d[0]   d[1]
//   m g+8     a[1]         a[3]           k 2t+8, 2t+9  b[1]       m g+8   d[2]   d[3]
//
// So with k-major rows in shared memory, A is one ldmatrix_x4 whose lane l gives the address of row l % 16, k
// 8 * (l / 16), and the B of two neighbouring n8 blocks is one ldmatrix_x4 with row (l % 8) + 8 * (l / 16), k
// 8 * (l / 8 % 2): r[0], r[1] are b of the first block, r[2], r[3] of the second. In bytes it is the same
// for every type: 32 bytes of the depth, of which a register has 4.
#pragma once
#include "types.cuh"

namespace cydnn {

// Bytes: what a copy moves at once; a row of a swizzled panel, and its chunks.
constexpr int CHUNK = 16, LINE = 128, CHUNKS = LINE / CHUNK;

// What an operand of tensor cores is made of, a row for each type. `line`: a step of the tile programs has as
// many of the depth; `k`: an instruction, so a step has `products` of them.
template <class Stored, class Added> struct MmaRow {
    using Type = Stored;
    using Sum = Added;
    static constexpr int bytes = sizeof(Type), chunk = CHUNK / bytes, line = LINE / bytes, k = 32 / bytes;
    static constexpr int products = line / k;
};
template <class Elem> struct MmaElem;
template <> struct MmaElem<f16> : MmaRow<f16, float> {};
template <> struct MmaElem<bf16> : MmaRow<bf16, float> {};

// Two and four neighbours of a type of sums; four that came as words.
template <class Sum> struct Several;
template <> struct Several<float> {
    using Two = float2;
    using Four = float4;
    static DEVICE Four of(const float4& v) { return v; }
};
template <> struct Several<int> {
    using Two = int2;
    using Four = int4;
    static DEVICE Four of(const float4& v) {
        return {__float_as_int(v.x), __float_as_int(v.y), __float_as_int(v.z), __float_as_int(v.w)};
    }
};

DEVICE unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// PTX ISA §ldmatrix: lane 8i + j gives the address of row j of matrix i; lane l receives row l / 4,
// elements 2 (l % 4) and the next, of matrix i in r[i].
#define CYDNN_LDMATRIX(NAME, TRANS)                                                                       \
    DEVICE void ldmatrix_x4##NAME(unsigned (&r)[4], unsigned address) {                                   \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0,%1,%2,%3}, [%4];"             \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");         \
    }
CYDNN_LDMATRIX(, "")
CYDNN_LDMATRIX(_trans, ".trans")
#undef CYDNN_LDMATRIX

// PTX ISA §Matrix Fragments for mma.m16n8k8 (f16): A is a[0], a[1] and B is b[0] of the picture.
DEVICE void mma_m16n8k8_f16(float (&d)[4], const unsigned (&a)[2], unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

// PTX ISA §mma (.m16n8k16 of 16-bit types)
template <class Elem>
DEVICE void mma_m16n8(typename MmaElem<Elem>::Sum (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

template <> DEVICE void mma_m16n8<f16>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    mma_m16n8k8_f16(d, {a[0], a[1]}, b[0]);
    mma_m16n8k8_f16(d, {a[2], a[3]}, b[1]);
#endif
}
#if __CUDA_ARCH__ >= 800                                     // before, ptxas has no bf16 and no f64 mma
template <> DEVICE void mma_m16n8<bf16>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// PTX ISA §Matrix Fragments for mma.m8n8k4 (.f64): a is (m lane/4, k lane%4), b is (k lane%4, n lane/4),
// d[i] is (m lane/4, n 2(lane%4)+i).
DEVICE void mma_m8n8k4_f64(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}
#endif

// PTX ISA §cp.async: copies `bytes` (0 … Size) of global memory and writes zeros up to Size. `p` is not
// read when bytes is 0, and may then point anywhere. Both addresses are aligned to Size. 16 bytes pass by
// L1 (.cg). On sm_75 it is a plain copy through registers, so the same kernel text is right there, only not
// asynchronous.
template <int Size> DEVICE void cp_async(unsigned address, const void* p, int bytes = Size) {
    static_assert(Size == 16 || Size == 8 || Size == 4, "cp_async: Size must be 16, 8 or 4");
#if __CUDA_ARCH__ >= 800
    if constexpr (Size == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(address), "l"(__cvta_generic_to_global(p)), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(address), "l"(__cvta_generic_to_global(p)), "n"(Size), "r"(bytes) : "memory");
#else
    alignas(Size) unsigned char copy[Size] = {};
    using Access = typename Word<Size>::type;
    if (bytes == Size) *reinterpret_cast<Access*>(copy) = *reinterpret_cast<const Access*>(p);
    else UNROLL for (int i = 0; i < Size; ++i)
        if (i < bytes) copy[i] = static_cast<const unsigned char*>(p)[i];
    UNROLL for (int i = 0; i < Size; i += 4)
        asm volatile("st.shared.u32 [%0], %1;"
                     :: "r"(address + i), "r"(*reinterpret_cast<unsigned*>(copy + i)) : "memory");
#endif
}
template <int Size> DEVICE void cp_async_if(bool valid, unsigned address, const void* p) {
    cp_async<Size>(address, p, valid ? Size : 0);
}

// PTX ISA §cp.async.commit_group, §cp.async.wait_group: at most Pending groups are still under way.
DEVICE void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int Pending> DEVICE void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(Pending) : "memory");
#endif
}

}  // namespace cydnn
