// A product on CUDA cores whose results lie where the gates are computed: a thread has one unit, Rows rows of
// weights for it, and Batch rows of states. 256 threads: 32 / Lanes units, Lanes parts of the depth (added by
// shuffles), 8 warps of Batch rows each.
//
//   Product<A, Rows, Batch, Lanes> product;
//   product.run<ByDepth>(depth, weight, state)    weight(row, unit, k) and state(b, k) give values, 0 where
//                                                 there is none; all threads call it. ByDepth: neighbours of
//                                                 weights in memory differ in k, else in the unit
//   product.sums[row][b]                          of unit `product.unit`, batch `product.first + b`, in every
//                                                 part
#pragma once
#include "lib/types.cuh"

namespace cydnn {

// The words of the axis SHAPE: batch rows of a thread, parts of the depth.
namespace wide { constexpr int Batch = 8, Lanes = 1; }
namespace narrow { constexpr int Batch = 2, Lanes = 4; }

template <class A, int Rows, int Batch, int Lanes> struct Product {
    static constexpr int Threads = 256, Units = 32 / Lanes, Columns = 8 * Batch, Depth = 128 / int(sizeof(A)),
                         Pad = Columns + 16 / int(sizeof(A)), Weights = Depth * Rows * Units;
    A sums[Rows][Batch];
    int unit, part, first;

    // The word of k, row, unit: [kk][row][part and unit], k = Lanes * kk + part, turned by kk against
    // conflicts of banks.
    static DEVICE int word(int k, int row, int u) {
        return (k / Lanes * Rows + row) * 32 + (k % Lanes * Units + u + k / Lanes) % 32;
    }

    template <bool ByDepth, class Weight, class State>
    DEVICE void run(int depth, Weight weight, State state) {
        __shared__ A w[Weights];
        __shared__ __align__(16) A s[Depth * Pad];
        const int lane = threadIdx.x % 32;
        unit = lane % Units, part = lane / Units, first = threadIdx.x / 32 * Batch;
        UNROLL for (int r = 0; r < Rows; ++r) UNROLL for (int b = 0; b < Batch; ++b) sums[r][b] = 0;
        NO_UNROLL for (int k0 = 0; k0 < depth; k0 += Depth) {
            UNROLL for (int n = 0; n < (Weights + Threads - 1) / Threads; ++n) {
                const int i = n * Threads + threadIdx.x;
                if (Weights % Threads && i >= Weights) break;
                const int k = ByDepth ? i % Depth : i / Units % Depth, row = i / (Depth * Units),
                          u = ByDepth ? i / Depth % Units : i % Units;
                w[word(k, row, u)] = weight(row, u, k0 + k);
            }
            UNROLL for (int n = 0; n < Depth * Columns / Threads; ++n) {
                const int i = n * Threads + threadIdx.x;
                s[i % Depth * Pad + i / Depth] = state(i / Depth, k0 + i % Depth);
            }
            __syncthreads();
            _Pragma("unroll 4") for (int kk = 0; kk < Depth / Lanes; ++kk) {
                const auto values = Vec<A, Batch>::load(s + (kk * Lanes + part) * Pad + first);
                UNROLL for (int r = 0; r < Rows; ++r) {
                    const A each = w[(kk * Rows + r) * 32 + (lane + kk) % 32];
                    UNROLL for (int b = 0; b < Batch; ++b) sums[r][b] += each * values[b];
                }
            }
            __syncthreads();
        }
        UNROLL for (int r = 0; r < Rows; ++r)
            UNROLL for (int b = 0; b < Batch; ++b)
                UNROLL for (int step = Units; step < 32; step *= 2)
                    sums[r][b] += __shfl_xor_sync(0xFFFFFFFFu, sums[r][b], step);
    }
};

}  // namespace cydnn
