/*@kernel
name    = "conv_wgmma_{T}_{TILE_M}x{TILE_N}_{W_MAJOR}"
about   = """y[pixels, n] = im2col(x)[pixels, taps and channels] @ w on Hopper's tensor cores (TMA, wgmma, \
             f32 sums), channels innermost, by three warpgroups of 64 rows; the depth may be split. bk: \
             forward. bn: the data gradient of unit stride, where x is dy and y is dx."""
T       = ["f16", "bf16"]
TILE_M  = [192]
TILE_N  = [128]
W_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "const CUtensorMap boxes", "T* y", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k", "int splits",
           "Array<FastDiv, 5> order", "int y_form", "int y_along_m", "int rank", "int channels",
           "int is_flipped", "int64_t y_m", "int64_t y_n", "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps",
           "Array<int, 3> stride", "Array<int, 3> first", "Array<int, 3> dilation", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "1024 + 3 * 16384 + 256 + 4 * (TILE_M + TILE_N) * 128"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "k % {line(T)} == 0", "split_k % {line(T)} == 0",
           "split_k * splits >= k",
           "split_k * (splits - 1) < k", "splits == 1 or parts == 1",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), order[4])",
           "4 <= rank and rank <= 5", "order[4] == 1 or splits == 1",
           "order[4] == 1 or channels % {line(T) if W_MAJOR == 'bn' else 8} == 0",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] * splits < 2147483648"]
marks   = ["ahead", "epilogue", "pairs"]
problems = ["""{'conv_fprop' if W_MAJOR == 'bk' else 'conv_dgrad'} \
               n2c{24 if W_MAJOR == 'bk' else TILE_N - 8}h9w5 k{TILE_N - 8 if W_MAJOR == 'bk' else 24}r3s2 \
               stride={2 if W_MAJOR == 'bk' else 1},1 dilation=1,2 pre_pad=1,0 post_pad=0,2 {T} nhwc""",
            """{'conv_fprop x=1x72x5x6' if W_MAJOR == 'bk' else 'conv_dgrad dy=1x72x4x6'}:{T}@2160,1,432,72 \
               w={TILE_N - 3 if W_MAJOR == 'bk' else 72}x{72 if W_MAJOR == 'bk' else TILE_N - 3}x2x1:{T}\
@512,1,256,256 {'y' if W_MAJOR == 'bk' else 'dx'}=1x{TILE_N - 3}x{4 if W_MAJOR == 'bk' else 5}x6:{T}\
@{30 * TILE_N},30,6,1 mode=convolution""",
            """{'conv_fprop n2c16d3h5w6 k21t2r3s2 stride=2,1,3' if W_MAJOR == 'bk' else \
               'conv_dgrad n1c24d3h5w6 k16t2r3s2'} dilation=1,2,1 \
               pre_pad=1,0,2 post_pad=0,2,1 mode=convolution {T} nhwc""",
            """{'conv_fprop' if W_MAJOR == 'bk' else 'conv_dgrad'} n1c128h3w5 k128r1s2 groups=2 {T} nhwc""",
            """{'conv_fprop' if W_MAJOR == 'bk' else 'conv_dgrad'} \
               n7c{40 if W_MAJOR == 'bk' else TILE_N}h5w6 \
               k{TILE_N if W_MAJOR == 'bk' else 40}r1s1 {T} nhwc"""]
@*/
// As conv_wgmma, in tiles of TILE_M rows: as many as fill the card where those of 128 leave a part of it
// without work. Nobody shares a tile.
#include "wgmma_windows.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
    const __grid_constant__ CUtensorMap boxes, T* y, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int splits, TileDivisors order, int y_form, int y_along_m, int rank, int channels,
    int is_flipped, i64 y_m, i64 y_n, Array<FastDiv, 3> out, Array<FastDiv, 3> taps, Array<int, 3> stride,
    Array<int, 3> first, Array<int, 3> dilation, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using Source = Windows<Tile, W_MAJOR>;
    extern __shared__ unsigned char shared[];
    Source source = {x, w, out, taps, stride, first, dilation, rank, channels, n, is_flipped, y_n};
    const WgmmaOut<Tile, T> to = {y, parts, alpha, beta, m, n, y_form, y_along_m, y_m, y_n};
    wgmma_blocks<Tile, A, Source::B>(shared, source, TileOrder<Tile>{order, m, splits},
                                     Depth<Tile>{k, split_k, 1}, boxes, to);
}
