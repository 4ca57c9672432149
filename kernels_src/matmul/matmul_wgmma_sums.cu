/*@kernel
name    = "matmul_wgmma_sums_{T}_{TILE_M}x{TILE_N}_{A_MAJOR}_{B_MAJOR}"
about   = """matmul_wgmma of one matrix, whole in its depth, which also adds up the columns of c (and their \
             squares) behind what is fused: a row of sums for every 64 rows."""
T       = ["f16", "bf16"]
TILE_M  = [128]
TILE_N  = [256, 128]
A_MAJOR = ["ak", "am"]
B_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap a", "const CUtensorMap b", "const CUtensorMap boxes", "T* c", "float* sums",
           "float alpha", "float beta", "int m", "int n", "int k", "int moments",
           "Array<FastDiv, 5> order", "int c_form", "int64_t c_m", "int64_t c_n", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "1 <= moments <= 2", "c_form in (0, 1, 3)",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), 1)",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) < 2147483648"]
marks   = ["ahead", "epilogue", "pairs"]
problems = []
@*/
// As matmul_wgmma, whose parameters these are. sums: [ceil_div(m, 64)][moments][n]; moments 2: of the
// squares, too.
#include "matmul/matrices.cuh"
#include "tile/wgmma_sums.cuh"

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap boxes, T* c, float* sums, float alpha, float beta, int m, int n,
    int k, int moments, TileDivisors order, int c_form, i64 c_m, i64 c_n, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, A_MAJOR::k_major>;
    using B = WgmmaPanel<T, TILE_N, B_MAJOR::k_major>;
    extern __shared__ unsigned char shared[];
    TwoMatrices<Tile, A, B> source = {a, b};
    const WgmmaSums<Tile, T> to = {{c, nullptr, alpha, beta, m, n, c_form, 0, c_m, c_n}, sums, moments, n,
                                   WgmmaRing<Tile>(shared).way_out(0)};
    wgmma_blocks<Tile, A, B>(shared, source, TileOrder<Tile>{order, m, 1}, Depth<Tile>{k, k, 1}, boxes, to);
}
