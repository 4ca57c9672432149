// Blocks of a cluster (sm_90 and newer) that hold something together.
//
//   cluster_gather<Size>(mine, all)   every block's value of `mine`, in the order of their ranks
//   cluster_arrive() cluster_wait()   a barrier of the cluster's threads: what was stored before arrive is
//                                     read behind wait
//   cluster_copy(value, rank)         the value at the same place in the shared memory of block `rank`;
//                                     multiples of 4 bytes
//   cluster_read4(address, rank)      four floats at an address of shared memory, aligned to 16 bytes
//   cluster_write2(to, a, b)          two floats to an address that cluster_address gave
//   cluster_address(address, rank)    the same place of block `rank`, for what follows
//   cluster_send(to, v, barrier)      16 bytes on their way to a block, counted at an mbarrier there
//                                     (lib/hopper.cuh)
//   cluster_leave()                   before a block ends, behind cluster_arrive: its shared memory has been
//                                     read by the others
#pragma once
#include "mma.cuh"

namespace cydnn {

// PTX ISA §barrier.cluster
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// PTX ISA §mapa
DEVICE unsigned cluster_address(unsigned address, int rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// PTX ISA §ld.shared::cluster: the word at `address` in the shared memory of block `rank`.
DEVICE float cluster_read(unsigned address, int rank) {
    const unsigned there = cluster_address(address, rank);
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    return v;
}

// Four words from there.
DEVICE float4 cluster_read4(unsigned address, int rank) {
    const unsigned there = cluster_address(address, rank);
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(there) : "memory");
    return v;
}

// PTX ISA §st.shared::cluster
DEVICE void cluster_write2(unsigned to, float a, float b) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" :: "r"(to), "f"(a), "f"(b) : "memory");
}

// PTX ISA §st.async: counting releases what the thread did before, at cluster scope.
DEVICE void cluster_send(unsigned to, const uint4& v, unsigned barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier) : "memory");
}

template <class Value> DEVICE Value cluster_copy(const Value& mine, int rank) {
    static_assert(sizeof(Value) % 4 == 0, "cluster_copy: Value must be a multiple of 4 bytes");
    Value out;
    UNROLL for (int w = 0; w < int(sizeof(Value) / 4); ++w)
        reinterpret_cast<float*>(&out)[w] = cluster_read(shared_address(&mine) + 4 * w, rank);
    return out;
}

// Words floats of every block; all threads of all blocks call it once. Each block ends with cluster_leave().
template <int Size, int Words>
DEVICE void cluster_gather(const float (&mine)[Words], float (&all)[Size][Words]) {
    __shared__ float shown[Words];
    if (threadIdx.x == 0) UNROLL for (int w = 0; w < Words; ++w) shown[w] = mine[w];
    cluster_arrive();
    cluster_wait();
    UNROLL for (int b = 0; b < Size; ++b)
        UNROLL for (int w = 0; w < Words; ++w) all[b][w] = cluster_read(shared_address(shown + w), b);
    cluster_arrive();
}
DEVICE void cluster_leave() { cluster_wait(); }

}  // namespace cydnn
