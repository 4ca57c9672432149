/*@kernel
name    = "conv_wgmma_{T}_{TILE_M}x{TILE_N}_{W_MAJOR}"
about   = """y[pixels, n] = im2col(x)[pixels, taps and channels] @ w on Hopper's tensor cores (TMA, wgmma, \
             f32 sums), channels innermost; the depth may be split. bk: forward. bn: the data gradient of \
             unit stride, where x is dy and y is dx."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 192, 128, 64]
W_MAJOR = ["bk", "bn"]
when    = ["TILE_M == 128 or TILE_N in (128, 256)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "const CUtensorMap boxes", "T* y", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k",
           "int splits", "int team", "int share", "int alone", "int rest",
           "Array<FastDiv, 5> order", "FastDiv steps", "FastDiv lanes", "int y_form",
           "int y_along_m", "int rank", "int channels", "int is_flipped", "int64_t y_m", "int64_t y_n",
           "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps", "Array<int, 3> stride",
           "Array<int, 3> first", "Array<int, 3> dilation", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cluster = ["team", 1, 1]
cooperative = "share"
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "k % {line(T)} == 0", "split_k % {line(T)} == 0",
           "split_k * splits * team >= k",
           "split_k * (splits * team - 1) < k", "team >= 1",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), order[4])",
           "4 <= rank and rank <= 5", "order[4] == 1 or splits == 1",
           "order[4] == 1 or channels % {line(T) if W_MAJOR == 'bn' else 8} == 0",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] * splits < 2147483648",
           "share >= 0", "share == 0 or splits == 1 and team == 1 and parts == 1",
           "ceil_div(k, {line(T)}) <= steps", "0 <= alone", "0 <= rest",
           "steps == ceil_div(k, {line(T)}) or steps < ceil_div(k, {line(T)}) + share and steps % share == 0",
           "share * blocks >= rest * lanes",
           "share * blocks < 2147483648", "blocks % lanes == 0 or share == 0",
           "alone + rest // steps * lanes == ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] * splits",
           "rest % steps == 0", "share > 0 or rest == 0"]
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
            """{'conv_fprop' if W_MAJOR == 'bk' and TILE_M + TILE_N == 192 else \
               'conv_dgrad' if TILE_M + TILE_N == 192 else ''} \
               {'n1c128h3w5 k128r1s2 groups=2' if TILE_M + TILE_N == 192 else ''} \
               {T if TILE_M + TILE_N == 192 else ''} {'nhwc' if TILE_M + TILE_N == 192 else ''}""",
            """{'conv_fprop n5c8h13w16 k136r1s1 f16 nhwc' \
               if (T, TILE_M, TILE_N, W_MAJOR) == (f16, 128, 64, 'bk') else ''}""",
            """{'conv_dgrad n5c136h13w16 k8r1s1 bf16 nhwc' \
               if (T, TILE_M, TILE_N, W_MAJOR) == (bf16, 128, 64, 'bn') else ''}"""]
@*/
// m = pixels of y (of all images), n = its channels in a group, k = 64 for each tap and 64 channels of x in
// a group; the taps of 64 channels follow each other. Tap t of output o reads input o * stride + first + t *
// dilation. A block takes tiles of TILE_M x TILE_N one after the other, over `split_k` of the depth, as in
// matmul_wgmma. rank: of x's map, whose base pixels are the pixels of y. The dims of w's map:
// c, k, width, height, depth of the filters. y_form as in tile/wgmma_blocks.cuh; the map of `boxes` has dims
// n, m, groups.
#include "tile/wgmma_wide.cuh"
#include "wgmma_windows.cuh"

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
    const __grid_constant__ CUtensorMap boxes, T* y, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int splits, int team, int share, int alone, int rest,
    TileDivisors order, FastDiv steps, FastDiv lanes, int y_form, int y_along_m, int rank,
    int channels, int is_flipped, i64 y_m, i64 y_n, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> stride, Array<int, 3> first, Array<int, 3> dilation, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using Source = Windows<Tile, W_MAJOR>;
    extern __shared__ unsigned char shared[];
    Source source = {x, w, out, taps, stride, first, dilation, rank, channels, n, is_flipped, y_n};
    const WgmmaOut<Tile, T> to = {y, share ? nullptr : parts, alpha, beta, m, n, y_form, y_along_m, y_m, y_n};
    wgmma_blocks<Tile, A, Source::B>(
        shared, source, TileOrder<Tile>{order, m, splits},
        Stream<Tile>{{k, split_k, team}, parts, share, alone, rest, steps, lanes}, boxes, to);
}
