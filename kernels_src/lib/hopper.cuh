// Units of Hopper that work beside the threads.
//
// The tensor memory accelerator (sm_90 and newer): boxes of a tensor to shared memory and back, and the
// barriers at which what has come is counted.
//   const __grid_constant__ CUtensorMap x   a kernel parameter; the host gives a steps.TensorMap
//   barrier_init(b, count)                  one thread; then fence_async() and a barrier of the block
//   barrier_expect(b, bytes)                one thread arrives; the phase ends when so many bytes have come
//   barrier_wait(b, parity)                 until the phase of this parity has ended; parity 0 first
//   barrier_arrive(b)                       one of the count
//   barriers_begin()                        behind barrier_init: TMA sees them
//   tensor_ahead(x)                         one thread: the map is fetched before it is needed
//   tensor_load(to, x, at, b)               one thread: the box at coordinates `at`; what is outside is 0
//   pixels_load(to, x, at, by, b)           one thread: pixels from base pixel `at` = {c, w, h(, d), n} on,
//                                           moved by {w, h(, d)}; x is a map with corners, of as many dims
//   tensor_store(x, at, from)               one thread: what is outside is dropped, but rows end at 16 bytes
//   pixels_store(x, at, from)               pixels from base pixel `at` on; no corner of x may lie outside
//   store_commit(), store_wait_read<N>()    until all but the last N commits have read shared memory
//   fence_async()                           by who wrote shared memory, before TMA reads it
//
// `to` and `from` are 128-byte aligned. In shared memory a box is a C array of its dims, the innermost last.
// Matrix products of a warpgroup (sm_90a): 128 threads, from a warp index that is a multiple of 4 on.
//   swizzled_panel(address, leading, stride)   the descriptor of an operand in shared memory
//   Wgmma<f16, N>::add<TransA, TransB>(d, a, b, keep)
//                                 d (64 x N) = a @ b, or d + a @ b where keep is not 0; MmaElem::k deep
//   wgmma_begin(d)                before the first of them, and after any use of d
//   wgmma_commit()                what was asked for since then is a group
//   wgmma_wait<Left>(d)           until all but the last Left groups are done; d is valid with Left = 0
//   stmatrix_x4(address, r)       the reverse of ldmatrix_x4 (lib/mma.cuh), any warp
//   registers_give<N>(), registers_take<N>()   a warpgroup has N registers a thread from here on
//
// Sums of m64nN, thread t of the warpgroup, lane l = t % 32 (PTX ISA §wgmma, register fragments):
//
//   row 16 (t / 32) + l / 4        columns 8j + 2 (l % 4) + {0, 1}     d[4j], d[4j + 1]
//   row 16 (t / 32) + l / 4 + 8    the same                           d[4j + 2], d[4j + 3]
#pragma once
#include "mma.cuh"

struct alignas(128) CUtensorMap { unsigned long long opaque[16]; };         // cuda.h from CUDA 13 on

namespace cydnn {

// PTX ISA §mbarrier.init
DEVICE void barrier_init(uint64_t* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(count) : "memory");
}

// PTX ISA §mbarrier.arrive, .expect_tx
DEVICE void barrier_expect(uint64_t* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(b)), "r"(bytes) : "memory");
}

DEVICE void barrier_arrive(uint64_t* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(b)) : "memory");
}

// PTX ISA §fence, .mbarrier_init
DEVICE void barriers_begin() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// PTX ISA §mbarrier.try_wait
DEVICE void barrier_wait(uint64_t* b, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done) : "r"(shared_address(b)), "r"(parity) : "memory");
    } while (!done);
}

// PTX ISA §fence, .proxy.async
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// PTX ISA §prefetch, .tensormap
DEVICE void tensor_ahead(const CUtensorMap& x) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory");
}

// PTX ISA §cp.async.bulk.tensor
DEVICE void tensor_load(void* to, const CUtensorMap& x, const int (&at)[5], uint64_t* b) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                 :: "r"(shared_address(to)), "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]), "r"(shared_address(b)) : "memory");
}
DEVICE void pixels_load(void* to, const CUtensorMap& x, const int (&at)[4], const int (&by)[2], uint64_t* b) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                 :: "r"(shared_address(to)), "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(shared_address(b)), "h"(short(by[0])), "h"(short(by[1])) : "memory");
}
DEVICE void pixels_load(void* to, const CUtensorMap& x, const int (&at)[5], const int (&by)[3], uint64_t* b) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10};"
                 :: "r"(shared_address(to)), "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]), "r"(shared_address(b)), "h"(short(by[0])), "h"(short(by[1])),
                    "h"(short(by[2])) : "memory");
}
DEVICE void tensor_store(const CUtensorMap& x, const int (&at)[5], const void* from) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];"
                 :: "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                    "r"(shared_address(from)) : "memory");
}

DEVICE void pixels_store(const CUtensorMap& x, const int (&at)[4], const void* from) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group "
                 "[%0, {%1, %2, %3, %4}], [%5];"
                 :: "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(shared_address(from))
                 : "memory");
}

// PTX ISA §cp.async.bulk.commit_group, §cp.async.bulk.wait_group
DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int Left> DEVICE void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(Left) : "memory");
}

// ---- wgmma ----

// PTX ISA §wgmma, matrix descriptor: lines, swizzled. `leading`, `stride`: bytes (tile/wgmma.cuh).
DEVICE uint64_t swizzled_panel(unsigned address, unsigned leading, unsigned stride) {
    return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32
         | uint64_t(1) << 62;
}

// PTX ISA §wgmma.fence, §wgmma.commit_group, §wgmma.wait_group. The empty statements tell the compiler
// that the sums change here and not between.
DEVICE void sum_changes(float& sum) { asm volatile("" : "+f"(sum) :: "memory"); }
DEVICE void sum_changes(int& sum) { asm volatile("" : "+r"(sum) :: "memory"); }
template <class Sum, int Count> DEVICE void sums_change(Sum (&d)[Count]) {
    UNROLL for (int i = 0; i < Count; ++i) sum_changes(d[i]);
}
template <class Sum, int Count> DEVICE void wgmma_begin(Sum (&d)[Count]) {
    sums_change(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left> DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Left) : "memory");
}
template <int Left, class Sums> DEVICE void wgmma_wait(Sums& d) { wgmma_wait<Left>(), sums_change(d); }

// PTX ISA §wgmma.mma_async
template <class Elem, int N> struct Wgmma;

#define CYDNN_NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define CYDNN_NAMES_16 CYDNN_NAMES_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define CYDNN_NAMES_32 CYDNN_NAMES_16                                                      \
    ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CYDNN_NAMES_64                                                                     \
    CYDNN_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"     \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define CYDNN_NAMES_128                                                                    \
    CYDNN_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"     \
    "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"                     \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"         \
    "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define CYDNN_SUMS_8(I)                                                                    \
    "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3]), "+f"(d[I + 4]),            \
        "+f"(d[I + 5]), "+f"(d[I + 6]), "+f"(d[I + 7])
#define CYDNN_SUMS_16(I) CYDNN_SUMS_8(I), CYDNN_SUMS_8(I + 8)
#define CYDNN_SUMS_32(I) CYDNN_SUMS_16(I), CYDNN_SUMS_16(I + 16)
#define CYDNN_SUMS_64(I) CYDNN_SUMS_32(I), CYDNN_SUMS_32(I + 32)
#define CYDNN_SUMS_128(I) CYDNN_SUMS_64(I), CYDNN_SUMS_64(I + 64)
#define CYDNN_WGMMA(ELEM, N, SUMS, A, B, KEEP, TRANS_A, TRANS_B)                           \
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
#define CYDNN_WGMMA_OF(ELEM)                                                               \
    CYDNN_WGMMA(ELEM, 16, 8, "%8", "%9", "%10", "%11", "%12")                              \
    CYDNN_WGMMA(ELEM, 32, 16, "%16", "%17", "%18", "%19", "%20")                           \
    CYDNN_WGMMA(ELEM, 64, 32, "%32", "%33", "%34", "%35", "%36")                           \
    CYDNN_WGMMA(ELEM, 128, 64, "%64", "%65", "%66", "%67", "%68")                          \
    CYDNN_WGMMA(ELEM, 256, 128, "%128", "%129", "%130", "%131", "%132")
CYDNN_WGMMA_OF(f16)
CYDNN_WGMMA_OF(bf16)
#undef CYDNN_WGMMA_OF
#undef CYDNN_WGMMA

// PTX ISA §stmatrix: lane 8i + j gives the address of row j of matrix i.
DEVICE void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// PTX ISA §setmaxnreg: every warp of the warpgroup; the kernel has __launch_bounds__(threads, 1).
template <int Count>
DEVICE void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(Count)); }
template <int Count>
DEVICE void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(Count)); }

}  // namespace cydnn
