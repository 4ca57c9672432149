// Blocks of a cluster (sm_90 and newer) that hold one row together.
//
//   cluster_gather<Size>(mine, all)   every block's value of `mine`, in the order of their ranks
//   cluster_leave()                   before a block ends: its shared memory has been read by the others
#pragma once
#include "lib/mma.cuh"

namespace cydnn {

// PTX ISA §barrier.cluster
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// PTX ISA §mapa, §ld.shared::cluster: the word at `address` in the shared memory of block `rank`.
DEVICE float cluster_read(unsigned address, int rank) {
    unsigned there;
    float v;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    return v;
}

// Words floats of every block; all threads of all blocks call it once. Each block ends with cluster_leave().
template <int Size, int Words> DEVICE void cluster_gather(const float (&mine)[Words], float (&all)[Size][Words]) {
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
