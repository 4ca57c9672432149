// The tensor memory accelerator (sm_90 and newer): boxes of a tensor to shared memory and back, and the
// barriers at which what has come is counted.
//
//   const __grid_constant__ CUtensorMap x   a kernel parameter; the host gives a steps.TensorMap
//   barrier_init(b, count)                  one thread; then fence_async() and a barrier of the block
//   barrier_expect(b, bytes)                one thread arrives; the phase ends when so many bytes have come
//   barrier_wait(b, parity)                 until the phase of this parity has ended; parity 0 first
//   barrier_arrive(b)                       one of the count
//   barriers_begin()                        behind barrier_init: TMA sees them
//   tensor_load(to, x, at, b)               one thread: the box at coordinates `at`; what is outside is 0
//   tensor_store(x, at, from)               one thread: what is outside is dropped, but rows end at 16 bytes
//   store_commit(), store_wait_read<N>()    until all but the last N commits have read shared memory
//   fence_async()                           by who wrote shared memory, before TMA reads it
//
// `to` and `from` are 128-byte aligned. In shared memory a box is a C array of its dims, the innermost last.
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

// PTX ISA §cp.async.bulk.tensor
DEVICE void tensor_load(void* to, const CUtensorMap& x, const int (&at)[5], uint64_t* b) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                 :: "r"(shared_address(to)), "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]), "r"(shared_address(b)) : "memory");
}
DEVICE void tensor_store(const CUtensorMap& x, const int (&at)[5], const void* from) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];"
                 :: "l"(&x), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                    "r"(shared_address(from)) : "memory");
}

// PTX ISA §cp.async.bulk.commit_group, §cp.async.bulk.wait_group
DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int Left> DEVICE void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(Left) : "memory");
}

}  // namespace cydnn
