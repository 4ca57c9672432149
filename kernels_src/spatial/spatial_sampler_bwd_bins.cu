/*@kernel
name   = "spatial_sampler_bwd_bins"
about  = "The points of each image ordered by cell, and by number within one: a warp has a band of cells."
params = ["const int* cells", "int* starts", "int* order", "int images", "int points", "int kinds",
          "int band"]
block  = [32, 1, 1]
grid   = ["ceil_div(kinds, band)", "images", 1]
needs  = ["1 <= images < 65536", "points >= 1", "kinds >= 1", "1 <= band <= 1024"]
problems = ["spatial_sampler_bwd x=2x5x7x6:f32 dy=2x5x9x5:f32 grid=2x9x5x2:f32",
            "spatial_sampler_bwd x=2x1x47x33:f32 dy=2x1x19x35:f32 grid=2x19x35x2:f32",
            "spatial_sampler_bwd x=1x1x3x3:f32 dy=1x1x16x20:f32 grid=1x16x20x2:f32"]
@*/
// starts[image][cell]: where its points begin in order[image][…]; one more than there are cells (`kinds`).
// Every warp walks all points of its image twice: it counts those of its cells and those below them, then
// puts them down in order. Nobody waits for another, nothing is added by two threads at once.
#include "lib/reduce.cuh"

constexpr int AHEAD = 8;                             // loads in flight of a lane

extern "C" __global__ __launch_bounds__(32) void KERNEL(
    const int* cells, int* starts, int* order, int images, int points, int kinds, int band) {
    __shared__ int next[1024];
    const int lane = threadIdx.x, first = blockIdx.x * band, mine = min(band, kinds - first);
    cells += i64(blockIdx.y) * points, order += i64(blockIdx.y) * points;
    starts += i64(blockIdx.y) * (kinds + 1);
    for (int k = lane; k < mine; k += 32) next[k] = 0;
    __syncwarp();

    int below = 0;
    NO_UNROLL for (int base = lane; base < points; base += 32 * AHEAD) {
        int cell[AHEAD];
        UNROLL for (int a = 0; a < AHEAD; ++a) cell[a] = base + 32 * a < points ? cells[base + 32 * a] : -1;
        UNROLL for (int a = 0; a < AHEAD; ++a) {
            below += cell[a] >= 0 && cell[a] < first;
            if (unsigned(cell[a] - first) < unsigned(mine)) atomicAdd(&next[cell[a] - first], 1);
        }
    }
    int start = warp_sum(below);
    __syncwarp();
    for (int base = 0; base < mine; base += 32) {
        const int k = base + lane, here = k < mine ? next[k] : 0;
        int before = here;                           // sum of this lane and those in front of it
        UNROLL for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(~0u, before, d);
            if (lane >= d) before += other;
        }
        if (k < mine) starts[first + k] = next[k] = start + before - here;
        start += __shfl_sync(~0u, before, 31);
    }
    if (first + mine == kinds && lane == 0) starts[kinds] = start;
    __syncwarp();

    NO_UNROLL for (int base = 0; base < points; base += 32 * AHEAD) {
        int cell[AHEAD];
        UNROLL for (int a = 0; a < AHEAD; ++a)
            cell[a] = base + 32 * a + lane < points ? cells[base + 32 * a + lane] : -1;
        UNROLL for (int a = 0; a < AHEAD; ++a) {
            const int k = cell[a] - first;
            const bool is_mine = cell[a] >= 0 && unsigned(k) < unsigned(mine);
            const unsigned ours = __ballot_sync(~0u, is_mine);
            if (ours == 0) continue;
            if (is_mine) {
                const unsigned same = __match_any_sync(ours, k), earlier = same & (1u << lane) - 1;
                order[next[k] + __popc(earlier)] = base + 32 * a + lane;
                __syncwarp(ours);
                if (earlier == 0) next[k] += __popc(same);
            }
            __syncwarp();
        }
    }
}
