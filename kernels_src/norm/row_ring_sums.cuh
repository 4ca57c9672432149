// Sums of columns that teams have: part[team][dscale, dbias][cols], added behind a barrier of the grid.
#pragma once
#include "row_ring.cuh"

namespace cydnn {

DEVICE void put(float* to, const float (&v)[8]) {
    UNROLL for (int i = 0; i < 8; i += 4)
        *reinterpret_cast<float4*>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}

// Warps at work, `spread` of them for 32 columns of all teams; in a fixed order.
DEVICE void add_parts(const float* part, int teams, int cols, int spread) {
    __shared__ float2 more[WARPS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, units = ceil_div(cols, 32);
    const int step = int(gridDim.x) * (WARPS / spread), own = blockIdx.x * (WARPS / spread) + warp / spread;
    NO_UNROLL for (int unit = own; unit - own + int(blockIdx.x) * (WARPS / spread) < units; unit += step) {
        const int col = unit * 32 + lane;
        float2 sum = {0, 0};
        if (col < cols) {
            const float* at = part + i64(warp % spread) * 2 * cols + col;
            _Pragma("unroll 8") for (int p = warp % spread; p < teams; p += spread) {
                sum.x += at[0], sum.y += at[cols];
                at += i64(spread) * 2 * cols;
            }
        }
        at_work();
        more[warp][lane] = sum;
        at_work();
        if (warp % spread || col >= cols) continue;
        NO_UNROLL for (int s = 1; s < spread; ++s)
            sum.x += more[warp + s][lane].x, sum.y += more[warp + s][lane].y;
        fuse_dscale(sum.x, 0, col);
        fuse_dbias(sum.y, 0, col);
    }
}

}  // namespace cydnn
