// Attention's gradients of 8 bits on Hopper (sm_90a): what sdpa_bwd_fp8_wgmma_*.cu have beside the loops of
// bwd_wgmma_steps.cuh.
#pragma once
#include "bwd_wgmma_steps.cuh"

namespace cydnn {

// Sums times `by`, in f32: a thread has pairs of two rows. to: its first row's elements; left: rows from that
// on; depth: elements of a row that are there.
template <class Tile>
DEVICE void sdpa_bwd_write(const typename SdpaBwdSums<Tile>::Sums& sums, float by, float* to, i64 step,
                           int left, int depth) {
    const int column = threadIdx.x % 4 * 2;
    UNROLL for (int h = 0; h < 2; ++h) {
        if (8 * h >= left) continue;
        float* const line = to + 8 * h * step + column;
        UNROLL for (int i = 0; i < Tile::depth / 8; ++i) {
            const float* const pair = sums + 4 * i + 2 * h;
            if (8 * i < depth) *reinterpret_cast<float2*>(line + 8 * i) = {pair[0] * by, pair[1] * by};
        }
    }
}

}  // namespace cydnn
