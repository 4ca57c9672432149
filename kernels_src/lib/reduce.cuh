// Reductions over a warp and over a block.
//
//   warp_sum(v) warp_max(v)                    v: float, double, int; over groups of Width = 32 lanes
//                                              (or 1, 2 … 16)
//   warp_reduce<Width>(v, op)                  v: anything of a multiple of 4 bytes; op(a, b), commutative
//   block_sum<Threads>(v)                      all threads of a block, blockDim = {Threads, 1, 1},
//                                              a power of two
//   block_reduce<Threads>(v, op)
//
// Every thread of the warp or block must call, and every thread gets the result. The order of the sum depends
// on Threads only: results are the same in every run. Maxima let a NaN win (max_nan). A second call for the
// same Value and op wants a __syncthreads() before it: all have to have read the parts of the first.
#pragma once
#include "math.cuh"

namespace cydnn {

struct Sum {
    template <class Value> DEVICE Value operator()(Value a, Value b) const { return a + b; }
};
struct Max {
    template <class Value> DEVICE Value operator()(Value a, Value b) const { return a < b ? b : a; }
    DEVICE float operator()(float a, float b) const { return max_nan(a, b); }
    DEVICE double operator()(double a, double b) const { return max_nan(a, b); }
};

// PTX ISA §shfl.sync (.bfly), word by word: the value of lane ^ mask.
template <class Value> DEVICE Value shuffle_xor(Value v, int mask) {
    static_assert(sizeof(Value) % 4 == 0, "shuffle_xor: Value must be a multiple of 4 bytes");
    Value out;
    UNROLL for (int i = 0; i < int(sizeof(Value) / 4); ++i)
        reinterpret_cast<unsigned*>(&out)[i] =
            __shfl_xor_sync(0xffffffffu, reinterpret_cast<const unsigned*>(&v)[i], mask);
    return out;
}
template <> DEVICE float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
template <> DEVICE double shuffle_xor(double v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
template <> DEVICE int shuffle_xor(int v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

template <int Width = 32, class Value, class Op> DEVICE Value warp_reduce(Value v, Op op) {
    UNROLL for (int mask = Width / 2; mask > 0; mask /= 2) v = op(v, shuffle_xor(v, mask));
    return v;
}
template <int Width = 32, class Value> DEVICE Value warp_sum(Value v) { return warp_reduce<Width>(v, Sum{}); }
template <int Width = 32, class Value> DEVICE Value warp_max(Value v) { return warp_reduce<Width>(v, Max{}); }

// A warp reduces, its first lane leaves the part in shared memory, every warp reduces the parts.
template <int Threads, class Value, class Op> DEVICE Value block_reduce(Value v, Op op) {
    constexpr int warps = Threads / 32;
    static_assert(Threads % 32 == 0 && (warps & (warps - 1)) == 0 && warps <= 32,
                  "block_reduce: 32, 64, … 1024 threads");
    v = warp_reduce(v, op);
    if constexpr (warps > 1) {
        __shared__ Value parts[warps];
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
        __syncthreads();
        v = warp_reduce<warps>(parts[threadIdx.x % warps], op);
    }
    return v;
}
template <int Threads, class Value>
DEVICE Value block_sum(Value v) { return block_reduce<Threads>(v, Sum{}); }

}  // namespace cydnn
