/*@kernel
name   = "norm_bwd_sums"
about  = "Second of two launches: dscale and dbias, the parts of all blocks added in a fixed order."
targets = ["sm_75", "sm_90"]
params = ["const float* part", "int parts", "int cols", "Fuse fuse"]
block  = [512, 1, 1]
extra  = ["groups"]
grid   = ["ceil_div(cols, 16)", "groups", 1]
dependent = true
needs  = ["1 <= parts < 2**24", "1 <= cols < 2**30", "1 <= groups < 2**16"]
marks  = ["dscale", "dbias"]
problems = ["norm_bwd 9x100 f16", "norm_bwd 4300x8 f32", "norm_bwd 3x5x24 f16 mode=ada_layer axis=2"]
@*/
// part[group][part][dscale, dbias][cols]. 16 columns a block; 32 threads a column take every
// 32nd part, eight of them under way at once.
#include "lib/types.cuh"

DEVICE void fuse_dscale(float& v, unsigned group, unsigned col) {
    asm volatile("// @fuse.dscale v=%0 group=%1 col=%2;" : "+f"(v) : "r"(group), "r"(col));
}
DEVICE void fuse_dbias(float& v, unsigned group, unsigned col) {
    asm volatile("// @fuse.dbias v=%0 group=%1 col=%2;" : "+f"(v) : "r"(group), "r"(col));
}

extern "C" __global__ __launch_bounds__(512) void KERNEL(const float* part, int parts, int cols, Fuse fuse) {
#if __CUDA_ARCH__ >= 900                                 // PTX ISA §griddepcontrol
    asm volatile("griddepcontrol.wait;" ::: "memory");   // the parts have not ended yet
#endif
    __shared__ float shown[2][32][17];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16, col = blockIdx.x * 16 + x;
    float sum[2] = {0, 0};
    part += i64(blockIdx.y) * parts * 2 * cols;
    if (col < cols) {
        _Pragma("unroll 8") for (int p = y; p < parts; p += 32) {
            sum[0] += part[i64(p) * 2 * cols + col];
            sum[1] += part[i64(p) * 2 * cols + cols + col];
        }
    }
    shown[0][y][x] = sum[0], shown[1][y][x] = sum[1];
    __syncthreads();
    if (y > 0 || col >= cols) return;
    UNROLL for (int i = 1; i < 32; ++i) sum[0] += shown[0][i][x], sum[1] += shown[1][i][x];
    fuse_dscale(sum[0], blockIdx.y, col);
    fuse_dbias(sum[1], blockIdx.y, col);
}
