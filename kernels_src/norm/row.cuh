// A row of a layer, RMS or instance normalization in the registers of the threads that share it, and the
// marks of its kernels:
//
//   load_x, load_dy, load_scale, load_bias   spliced code loads, of any type; v holds what is there without
//   load_mean, load_rstd                     a row's statistics
//   store                                    spliced code stores
//   mean, rstd                               spliced code stores a row's statistics
//
// `row` and `col` are linear indices over the dims that there is a row for, and over those of a row.
#pragma once
#include "lib/reduce.cuh"
#if defined(CLUSTER) && CLUSTER > 1
#include "lib/cluster.cuh"
#endif

namespace cydnn {

#define CYDNN_MARK(NAME)                                                                                     \
    DEVICE void fuse_##NAME(float (&v)[1], i64 off, unsigned row, unsigned col) {                            \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 row=%2 col=%3;"                                         \
                     : "+f"(v[0]) : "l"(off), "r"(row), "r"(col));                                           \
    }                                                                                                        \
    DEVICE void fuse_##NAME(float (&v)[8], i64 off, unsigned row, unsigned col) {                            \
        asm volatile("// @fuse." #NAME " v=%0,%1,%2,%3,%4,%5,%6,%7 off=%8 row=%9 col=%10;"                   \
                     : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3]), "+f"(v[4]), "+f"(v[5]), "+f"(v[6]),   \
                       "+f"(v[7]) : "l"(off), "r"(row), "r"(col));                                           \
    }
CYDNN_MARK(load_x)
CYDNN_MARK(load_dy)
CYDNN_MARK(load_scale)
CYDNN_MARK(load_bias)
CYDNN_MARK(store)
#undef CYDNN_MARK
#define CYDNN_MARK(NAME)                                                                \
    DEVICE void fuse_##NAME(float& v, unsigned row) {                                   \
        asm volatile("// @fuse." #NAME " v=%0 row=%1;" : "+f"(v) : "r"(row));           \
    }
CYDNN_MARK(load_mean)
CYDNN_MARK(load_rstd)
CYDNN_MARK(mean)
CYDNN_MARK(rstd)
#undef CYDNN_MARK

// Threads of a row that is so many eights of elements long; a thread has 8 * units / threads elements.
constexpr int threads_of(int units) {
    return units <= 16 ? 16 : units <= 128 ? 32 : units <= 512 ? 128 : units / 4;
}

// The sum over the threads of a row. `again`: parts of an earlier one may still be read.
template <int Threads> DEVICE float row_sum(float v, bool again) {
    if constexpr (Threads <= 32) return warp_sum<Threads>(v);
    else {
        if (again) __syncthreads();
        return block_sum<Threads>(v);
    }
}

// What each block of a cluster has (one or two floats, alike in all of its threads), joined in the order of
// their ranks; `turn` counts the calls. All threads of all blocks call, and get it. Every block sends its own
// to all, so that nothing is read from afar behind the barrier. A kernel ends with rows_end.
#if defined(CLUSTER) && CLUSTER > 1
template <class Value, class Op> DEVICE Value over_cluster(Value v, int& turn, Op op) {
    constexpr int Words = sizeof(Value) / 4;
    static_assert(Words <= 2, "over_cluster: Value must have at most 8 bytes");
    __shared__ alignas(8) float shown[2][CLUSTER][2];
    auto& slots = shown[turn++ & 1];                       // nobody reads the other ones any more
    const float* words = reinterpret_cast<const float*>(&v);
    if (threadIdx.x < CLUSTER)
        cluster_write2(cluster_address(shared_address(slots[blockIdx.x % CLUSTER]), threadIdx.x), words[0],
                       words[Words - 1]);
    cluster_arrive();
    cluster_wait();
    Value all = *reinterpret_cast<const Value*>(slots[0]);
    UNROLL for (int b = 1; b < CLUSTER; ++b) all = op(all, *reinterpret_cast<const Value*>(slots[b]));
    return all;
}
DEVICE void rows_end() { cluster_arrive(), cluster_leave(); }
#else
template <class Value, class Op> DEVICE Value over_cluster(Value v, int&, Op) { return v; }
DEVICE void rows_end() {}
#endif

}  // namespace cydnn
