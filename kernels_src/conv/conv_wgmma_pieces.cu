/*@kernel
name    = "conv_wgmma_pieces_{T}_{TILE_M}x{TILE_N}"
about   = """y[pixels, n] = im2col(x)[pixels, taps and channels] @ w on Hopper's tensor cores (TMA, wgmma, \
             f32 sums) for channels that are no whole lines, channels innermost; the depth may be split. \
             Forward, and the data gradient of unit stride, where x is dy and y is dx."""
T       = ["f16", "bf16"]
TILE_M  = [128]
TILE_N  = [192, 128, 64]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap x32", "const CUtensorMap x16", "const CUtensorMap x8",
           "const CUtensorMap w", "const CUtensorMap w32", "const CUtensorMap w16", "const CUtensorMap w8",
           "const CUtensorMap boxes", "T* y", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k",
           "int splits", "int team", "int share", "int alone", "int rest",
           "Array<FastDiv, 5> order", "FastDiv steps", "FastDiv lanes", "int y_form",
           "int y_along_m", "int rank", "int channels", "int is_flipped", "int64_t y_m", "int64_t y_n",
           "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps", "Array<int, 3> stride",
           "Array<int, 3> first", "Array<int, 3> dilation", "Array<int, 4> ends", "Array<int, 4> starts",
           "int filter_rows", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cluster = ["team", 1, 1]
cooperative = "share"
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "channels % 8 == 0", "k == {line(T)} * ends[3]", "split_k % {line(T)} == 0",
           "split_k * splits * team >= k", "split_k * (splits * team - 1) < k", "team >= 1", "order[4] == 1",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), 1)", "4 <= rank and rank <= 5",
           "ends[0] % (taps[0] * taps[1] * taps[2]) == 0",
           "ends[1] - ends[0] in (0, ceil_div(taps[0] * taps[1] * taps[2], 2))",
           "ends[2] - ends[1] in (0, ceil_div(taps[0] * taps[1] * taps[2], 4))",
           "ends[3] - ends[2] in (0, ceil_div(taps[0] * taps[1] * taps[2], 8))",
           "filter_rows % 8 == 0 and 8 <= filter_rows and filter_rows <= TILE_N",
           "filter_rows >= n or TILE_N % filter_rows == 0",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * splits < 2147483648",
           "share >= 0", "share == 0 or splits == 1 and team == 1 and parts == 1",
           "ends[3] <= steps", "0 <= alone", "0 <= rest",
           "steps == ends[3] or steps < ends[3] + share and steps % share == 0",
           "share * blocks >= rest * lanes",
           "share * blocks < 2147483648", "blocks % lanes == 0 or share == 0",
           "alone + rest // steps * lanes == ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * splits",
           "rest % steps == 0", "share > 0 or rest == 0"]
marks   = ["ahead", "epilogue", "pairs"]
problems = ["""conv_fprop n2c104h9w5 k{TILE_N - 8}r3s2 stride=2,1 dilation=1,2 pre_pad=1,0 post_pad=0,2 \
               {T} nhwc""",
            """conv_fprop x=1x72x5x6:{T}@2160,1,432,72 w={TILE_N - 3}x72x2x1:{T}@512,1,256,256 \
               y=1x{TILE_N - 3}x4x6:{T}@{30 * TILE_N},30,6,1 mode=convolution""",
            """conv_fprop n2c16d3h5w6 k21t2r3s2 stride=2,1,3 dilation=1,2,1 \
               pre_pad=1,0,2 post_pad=0,2,1 mode=convolution {T} nhwc""",
            "conv_dgrad n3c{TILE_N + 40}h7w9 k48r3s3 pad=1 {T} nhwc",
            """conv_dgrad n1c{TILE_N - 8}d3h5w6 k88t2r3s2 dilation=1,2,1 pre_pad=1,0,2 \
               mode=convolution {T} nhwc""",
            "conv_fprop n1c200h9w16 k136r1s1 {T} nhwc"]
@*/
// m = pixels of y (of all images), n = its channels, k = 64 for each step that conv/wgmma_pieces.cuh makes of
// the taps and channels of x. Tap t of output o reads input o * stride + first + t * dilation. A block takes
// tiles of TILE_M x TILE_N one after the other, over `split_k` of the depth, as in matmul_wgmma. rank: of x's
// maps, whose base pixels are the pixels of y; the maps differ in the channels of a box, 64, 32, 16 or 8. The
// dims of w's maps: c, k, width, height, depth of the filters; boxes of as many channels and of filter_rows
// filters. For a data gradient c is k, and the other way round. y_form as in tile/wgmma_blocks.cuh; the map
// of `boxes` has dims n, m.
#include "tile/wgmma_wide.cuh"
#include "wgmma_pieces.cuh"

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap x32,
    const __grid_constant__ CUtensorMap x16, const __grid_constant__ CUtensorMap x8,
    const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap w32,
    const __grid_constant__ CUtensorMap w16, const __grid_constant__ CUtensorMap w8,
    const __grid_constant__ CUtensorMap boxes, T* y, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int splits, int team, int share, int alone, int rest,
    TileDivisors order, FastDiv steps, FastDiv lanes, int y_form, int y_along_m, int rank,
    int channels, int is_flipped, i64 y_m, i64 y_n, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> stride, Array<int, 3> first, Array<int, 3> dilation, Array<int, 4> ends,
    Array<int, 4> starts, int filter_rows, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using Source = Pieces<Tile>;
    extern __shared__ unsigned char shared[];
    Source source = {{x, w, out, taps, stride, first, dilation, rank, channels, n, is_flipped, y_n},
                     x32, x16, x8, w32, w16, w8, ends, starts, filter_rows};
    const WgmmaOut<Tile, T> to = {y, share ? nullptr : parts, alpha, beta, m, n, y_form, y_along_m, y_m, y_n};
    wgmma_blocks<Tile, A, Source::B>(
        shared, source, TileOrder<Tile>{order, m, splits},
        Stream<Tile>{{k, split_k, team}, parts, share, alone, rest, steps, lanes}, boxes, to);
}
