/*@kernel
name    = "conv_wgmma_kept_{T}_{TILE_N}_{W_MAJOR}"
about   = """y[pixels, n] = im2col(x)[pixels, taps and channels] @ w on Hopper's tensor cores (TMA, wgmma, \
             f32 sums), channels innermost: filters of TILE_N channels of y stay in shared memory. bk: \
             forward. bn: the data gradient of unit stride, where x is dy and y is dx."""
T       = ["f16", "bf16"]
TILE_N  = [128, 64]
W_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "const CUtensorMap boxes", "T* y", "float alpha",
           "float beta", "int m", "int n", "int k", "int stages", "FastDiv columns", "int y_form",
           "int rank", "int channels", "int is_flipped", "int64_t y_m", "Array<FastDiv, 3> out",
           "Array<FastDiv, 3> taps", "Array<int, 3> stride", "Array<int, 3> first",
           "Array<int, 3> dilation", "Fuse fuse"]
block   = [640, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "1024 + k * TILE_N * {sizeof(T)} + stages * 4 * 8208 + 32768 + 8"
extra   = ["blocks"]
needs   = ["m >= 1", "k >= {line(T)}", "k % {line(T)} == 0", "n >= 2", "columns == ceil_div(n, TILE_N)",
           "TILE_N == 64 or n == columns * TILE_N", "blocks % columns == 0",
           "stages >= 2", "4 <= rank and rank <= 5", "2 <= y_form and y_form <= 3", "m <= 2147482624"]
marks   = ["ahead", "pairs"]
problems = ["""{'conv_fprop' if W_MAJOR == 'bk' else 'conv_dgrad'} \
               n2c{24 if W_MAJOR == 'bk' else 88 if TILE_N == 64 else 128}h9w5 \
               k{24 if W_MAJOR != 'bk' else 88 if TILE_N == 64 else 128}r3s2 \
               stride={2 if W_MAJOR == 'bk' else 1},1 dilation=1,2 pre_pad=1,0 post_pad=0,2 {T} nhwc""",
            """{'conv_fprop' if W_MAJOR == 'bk' else 'conv_dgrad'} \
               n5c{64 if W_MAJOR == 'bk' else 2 * TILE_N}h13w16 k{2 * TILE_N if W_MAJOR == 'bk' else 64}r1s1 \
               {T} nhwc""",
            """{'conv_fprop n2c16d3h5w6' if W_MAJOR == 'bk' else 'conv_dgrad n1c128d3h5w6'} \
               {'k128t2r2s1 stride=2,1,3' if W_MAJOR == 'bk' else 'k16t2r2s1'} dilation=1,2,1 \
               pre_pad=1,0,2 post_pad=0,2,1 mode=convolution {T} nhwc"""]
@*/
// m = pixels of y (of all images), n = its channels, k = 64 for each tap and 64 channels of x; the taps of 64
// channels follow each other. Tap t of output o reads input o * stride + first + t * dilation. rank: of x's
// map, whose base pixels are the pixels of y, 64 in a box. The dims of w's map: c, k, width, height, depth of
// the filters. The map of `boxes` has dims n, m, in boxes of 16 rows. y_form: BOXES or FUSED.
#include "tile/wgmma_kept.cuh"
#include "wgmma_windows.cuh"

extern "C" __global__ __launch_bounds__(640, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
    const __grid_constant__ CUtensorMap boxes, T* y, float alpha, float beta, int m, int n, int k, int stages,
    FastDiv columns, int y_form, int rank, int channels, int is_flipped, i64 y_m, Array<FastDiv, 3> out,
    Array<FastDiv, 3> taps, Array<int, 3> stride, Array<int, 3> first, Array<int, 3> dilation, Fuse fuse) {
    using Tile = KeptTile<T, TILE_N>;
    using A = WgmmaPanel<T, 64, true>;
    using Source = Windows<Tile, W_MAJOR>;
    extern __shared__ unsigned char shared[];
    Source source = {x, w, out, taps, stride, first, dilation, rank, channels, n, is_flipped, 1};
    const WgmmaOut<Tile, T> to = {y, nullptr, alpha, beta, m, n, y_form, 0, y_m, 1};
    wgmma_kept<A, Source::B>(shared, source, boxes, to, k / Tile::k, stages, columns);
}
