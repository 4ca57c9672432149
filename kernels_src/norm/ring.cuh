// What the kernels share that keep whole channels in shared memory, one after the other.
//
//   Ring               the items of this thread in `depth` channels, under way or held
//   shared_merge       the parts of a channel of all threads of all blocks of a cluster, for the first thread
//
// An item is a vector of 16 bytes of each tensor. A thread sees only its own slots: no barrier is needed.
// When it has used an item for the last time it asks for that of the channel that comes next into this place,
// so loads and stores overlap.
#pragma once
#include "lib/cluster.cuh"
#include "moments.cuh"

namespace cydnn {

// At most so many groups of loads still under way, 0 … 3.
DEVICE void cp_async_wait_some(int pending) {
    switch (pending) {
        case 0: return cp_async_wait<0>();
        case 1: return cp_async_wait<1>();
        case 2: return cp_async_wait<2>();
        default: return cp_async_wait<3>();
    }
}

// `held` items of `Count` tensors; `count` of them this thread has. The halves of a channel are two groups of
// loads: one is summed while the other is under way. address(channel, k, i) is where item k of tensor i
// is, for channels below `channels`.
template <int Threads, class Elem, int Count> struct Ring {
    using Values = Vec<Elem, 16 / sizeof(Elem)>;
    uint4* stash;
    int held, depth, count, channels, buffer = 0;

    DEVICE uint4* slot(int b, int k, int i) const {
        return stash + ((b * held + k) * Count + i) * Threads + threadIdx.x;
    }
    DEVICE Values item(int k, int i) const {
        Values v;
        *reinterpret_cast<uint4*>(&v) = *slot(buffer, k, i);
        return v;
    }
    static constexpr int Parts = 2;
    DEVICE int begin_of(int part) const { return part * ceil_div(held, Parts); }
    DEVICE int end_of(int part) const { return min(min(begin_of(part + 1), held), count); }
    template <class Address> DEVICE void fetch(int b, int channel, int k, Address address) const {
        if (channel < channels)
            UNROLL for (int i = 0; i < Count; ++i)
                cp_async<16>(shared_address(slot(b, k, i)), address(channel, k, i));
    }
    template <class Address> DEVICE void start(int channel, int stride, Address address) const {
        NO_UNROLL for (int b = 0; b < depth; ++b)
            UNROLL for (int part = 0; part < Parts; ++part) {
                NO_UNROLL for (int k = begin_of(part); k < end_of(part); ++k)
                    fetch(b, channel + b * stride, k, address);
                cp_async_commit();
            }
    }
    DEVICE void wait(int part) const { cp_async_wait_some(Parts * depth - 1 - part); }
    template <class Use> DEVICE void first_pass(Use use) const {
        UNROLL for (int part = 0; part < Parts; ++part) {
            wait(part);
            NO_UNROLL for (int k = begin_of(part); k < end_of(part); ++k) use(k);
        }
    }
    // The last use of the channel; the one `depth` turns on takes its place.
    template <class Address, class Use> DEVICE void last_pass(int next, Address address, Use use) {
        UNROLL for (int part = 0; part < Parts; ++part) {
            NO_UNROLL for (int k = begin_of(part); k < end_of(part); ++k) {
                use(k);
                fetch(buffer, next, k, address);
            }
            cp_async_commit();
        }
        buffer = buffer + 1 == depth ? 0 : buffer + 1;
    }
};

// The first thread of every block gets it; `turn` counts the calls. In the order of the ranks.
template <int Threads, int Size, class Part> DEVICE Part shared_merge(Part mine, int turn) {
    __shared__ Part shown[2];
    const Team<Threads> team(1);
    Part each[1] = {mine}, all = combine_columns<Threads, 1, Part, 1>(team, each, 0);
    if constexpr (Size > 1) {
        Part& own = shown[turn & 1];                           // nobody reads the other one any more
        if (team.leads) own = all;
        cluster_arrive();
        cluster_wait();
        if (team.leads) {
            all = {};
            UNROLL for (int b = 0; b < Size; ++b) all = merge(all, cluster_copy(own, b));
        }
    }
    return all;
}
template <int Size> DEVICE void cluster_end() {
    if constexpr (Size > 1) cluster_arrive(), cluster_leave();
}

}  // namespace cydnn
