/*@kernel
name    = "conv_wgmma_sums_{T}_{TILE_M}x{TILE_N}_{W_MAJOR}"
about   = """conv_wgmma, whole in its depth, which also adds up the columns of y (and their squares) behind \
             what is fused: a row of sums for every 64 rows."""
T       = ["f16", "bf16"]
TILE_M  = [128]
TILE_N  = [256, 128, 64]
W_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "const CUtensorMap boxes", "T* y", "float* sums",
           "float alpha", "float beta", "int m", "int n", "int k", "int moments",
           "Array<FastDiv, 5> order", "int y_form", "int rank", "int channels", "int is_flipped",
           "int64_t y_m", "int64_t y_n", "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps",
           "Array<int, 3> stride", "Array<int, 3> first", "Array<int, 3> dilation", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "k % {line(T)} == 0", "1 <= moments <= 2",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), order[4])",
           "4 <= rank and rank <= 5", "y_form in (0, 1, 3)",
           "order[4] == 1 or channels % {line(T) if W_MAJOR == 'bn' else 8} == 0",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] < 2147483648"]
marks   = ["ahead", "epilogue", "pairs"]
problems = []
@*/
// As conv_wgmma, whose parameters these are. sums: [ceil_div(m, 64)][moments][n * groups]; moments 2: of the
// squares, too.
#include "wgmma_windows.cuh"
#include "tile/wgmma_sums.cuh"

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
    const __grid_constant__ CUtensorMap boxes, T* y, float* sums, float alpha, float beta, int m, int n,
    int k, int moments, TileDivisors order, int y_form, int rank, int channels,
    int is_flipped, i64 y_m, i64 y_n, Array<FastDiv, 3> out, Array<FastDiv, 3> taps, Array<int, 3> stride,
    Array<int, 3> first, Array<int, 3> dilation, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using Source = Windows<Tile, W_MAJOR>;
    extern __shared__ unsigned char shared[];
    Source source = {x, w, out, taps, stride, first, dilation, rank, channels, n, is_flipped, y_n};
    const WgmmaSums<Tile, T> to = {{y, nullptr, alpha, beta, m, n, y_form, 0, y_m, y_n}, sums, moments,
                                   n * int(order[4].by), WgmmaRing<Tile>(shared).way_out(0)};
    wgmma_blocks<Tile, A, Source::B>(shared, source, TileOrder<Tile>{order, m, 1},
                                     Depth<Tile>{k, k, 1}, boxes, to);
}
