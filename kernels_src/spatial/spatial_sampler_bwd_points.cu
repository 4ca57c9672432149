/*@kernel
name   = "spatial_sampler_bwd_points_{T}_{TEAM}"
about  = """dgrid of bilinear sampling, and the cell and fractions of each point: {TEAM} threads a point, \
            along the channels."""
T      = ["f64", "f32", "f16", "bf16"]
TEAM   = [1, 32]
params = ["const T* x", "const T* dy", "const T* grid", "T* dgrid", "int* cells", "Acc_T* fractions",
          "Acc_T alpha_dgrid", "Acc_T beta_dgrid", "int points", "int channels", "FastDiv w", "FastDiv h",
          "int width", "int height", "Array<int64_t, 4> x_strides", "Array<int64_t, 4> dy_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(points * TEAM, 256)", 1, 1]
needs  = ["1 <= points", "points * TEAM < 2**31"]
problems = ["""spatial_sampler_bwd x=2x{'5' if TEAM == 1 else '37'}x7x6:{T} \
               dy=2x{'5' if TEAM == 1 else '37'}x9x5:{T} grid=2x9x5x2:{T}""",
            """spatial_sampler_bwd x=2x{'5' if TEAM == 1 else '37'}x1x6:{T}@nhwc \
               dy=2x{'5' if TEAM == 1 else '37'}x9x5:{T}@nhwc grid=2x9x5x2:{T}"""]
@*/
// A point outside has cell -1; the cells of an image are (height + 1) * (width + 1), as the first row and
// column of pixels have points above and to the left.
#include "lib/reduce.cuh"
#include "points.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, const T* grid, T* dgrid, int* cells, Acc_T* fractions, Acc_T alpha_dgrid,
    Acc_T beta_dgrid, int points, int channels, FastDiv w, FastDiv h, int width, int height,
    Array<i64, 4> x_strides, Array<i64, 4> dy_strides) {
    const unsigned place = (blockIdx.x * 256 + threadIdx.x) / TEAM, lane = threadIdx.x % TEAM;
    if (place >= points) return;                     // a team leaves whole or stays whole
    unsigned i, j;
    const unsigned n = h.divmod(w.divmod(place, j), i);
    const Point<Acc_T> p(wide(grid[i64(place) * 2]), wide(grid[i64(place) * 2 + 1]), width, height);
    x += n * x_strides[0] + p.y * x_strides[2] + p.x * x_strides[3];
    dy += n * dy_strides[0] + i * dy_strides[2] + j * dy_strides[3];

    Acc_T along_x = 0, along_y = 0;
    if (p.near) NO_UNROLL for (int c = lane; c < channels; c += TEAM) {
        Acc_T v[2][2];
        UNROLL for (int corner = 0; corner < 4; ++corner) {
            const int right = corner % 2, below = corner / 2;
            const T* from = x + c * x_strides[1] + below * x_strides[2] + right * x_strides[3];
            v[below][right] = p.inside(right, below) ? to_acc(*from) : Acc_T(0);
        }
        const Acc_T d = to_acc(dy[c * dy_strides[1]]);
        along_x += d * ((1 - p.fy) * (v[0][1] - v[0][0]) + p.fy * (v[1][1] - v[1][0]));
        along_y += d * ((1 - p.fx) * (v[1][0] - v[0][0]) + p.fx * (v[1][1] - v[0][1]));
    }
    if constexpr (TEAM > 1) along_x = warp_sum<TEAM>(along_x), along_y = warp_sum<TEAM>(along_y);
    if (lane) return;
    T* to = dgrid + i64(place) * 2;
    to[0] = from_acc<T>(blend(alpha_dgrid, along_x * (Acc_T(width - 1) / 2), beta_dgrid, to));
    to[1] = from_acc<T>(blend(alpha_dgrid, along_y * (Acc_T(height - 1) / 2), beta_dgrid, to + 1));
    cells[place] = p.near ? (p.y + 1) * (width + 1) + p.x + 1 : -1;
    fractions[i64(place) * 2] = p.fx, fractions[i64(place) * 2 + 1] = p.fy;
}
