/*@kernel
name    = "conv_wgrad_wgmma_{T}_{TILE_M}x{TILE_N}"
about   = """dw[k, taps and channels] = dy[pixels, k]^T @ im2col(x)[pixels, taps and channels] on Hopper's \
             tensor cores (TMA, wgmma, f32 sums), channels innermost; the pixels may be split."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 192, 128, 64]
when    = ["TILE_M == 128 or TILE_N in (128, 256)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap dy", "const CUtensorMap x", "const CUtensorMap boxes", "T* dw", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k", "int groups",
           "int splits", "int team", "int share", "int alone", "int rest",
           "Array<FastDiv, 5> order", "FastDiv steps", "FastDiv lanes", "int dw_form", "int rank",
           "int channels", "int is_flipped", "int64_t dw_m", "FastDiv tap_columns", "Array<FastDiv, 3> out",
           "Array<FastDiv, 3> taps", "Array<int, 3> stride", "Array<int, 3> first",
           "Array<int, 3> dilation", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cluster = ["team", 1, 1]
cooperative = "share"
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "k >= 1", "n == taps[0] * taps[1] * taps[2] * tap_columns", "tap_columns % 64 == 0",
           "split_k % 64 == 0", "split_k * splits * team >= k", "split_k * (splits * team - 1) < k",
           "team >= 1", "4 <= rank and rank <= 5", "channels <= tap_columns",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), groups)",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * groups * splits < 2147483648",
           "share >= 0", "share == 0 or splits == 1 and team == 1 and parts == 1",
           "ceil_div(k, 64) <= steps", "0 <= alone", "0 <= rest",
           "steps == ceil_div(k, 64) or steps < ceil_div(k, 64) + share and steps % share == 0",
           "share * blocks >= rest * lanes",
           "share * blocks < 2147483648", "blocks % lanes == 0 or share == 0",
           "alone + rest // steps * lanes == ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * groups * splits",
           "rest % steps == 0", "share > 0 or rest == 0"]
marks   = ["ahead", "epilogue", "pairs"]
problems = ["""conv_wgrad n2c64h9w13 k40r3s2 stride=2,1 dilation=1,2 pre_pad=1,0 post_pad=0,2 {T} nhwc""",
            """conv_wgrad x=1x64x5x6:{T}@2160,1,432,72 dy=1x37x4x6:{T}@960,1,240,40 \
               dw=37x64x2x1:{T}@131,1,64,64 mode=convolution""",
            """conv_wgrad n2c21d3h5w6 k24t2r3s2 stride=2,1,3 dilation=1,2,1 pre_pad=1,0,2 post_pad=0,2,1 \
               mode=convolution x=2x21x3x5x6:{T}@2160,1,720,144,24 dw=24x21x2x3x2:{T} {T} nhwc""",
            """{'conv_wgrad n1c128h3w5 k48r1s2 groups=2' if TILE_M + TILE_N == 192 else ''} \
               {T if TILE_M + TILE_N == 192 else ''} {'nhwc' if TILE_M + TILE_N == 192 else ''}"""]
@*/
// m = filters of a group, n = columns of a filter: (tap, channel), the channels of a tap padded to
// tap_columns, whole 64; k = pixels of dy, of all images. Only where nothing is padded may the sums go to dw
// itself, whose filters then have contiguous columns; else they go to `parts`, for conv_wgrad_mma_sum. Tap t
// of output o reads input o * stride + first + t * dilation; flipped, tap t is the last but t. A block takes
// tiles of TILE_M x TILE_N one after the other, over `split_k` of the pixels, as in matmul_wgmma. Behind the
// last pixel TMA brings zeros: rows of dy outside its map, and of x, where they are images outside.
// rank: of x's map, whose base pixels are the pixels of dy. dw_form as in tile/wgmma_blocks.cuh; the map of
// `boxes` has dims n, m, groups.
#include "mma_rows.cuh"
#include "tile/wgmma_blocks.cuh"
#include "tile/wgmma_wide.cuh"

namespace cydnn {
template <class Tile> struct Gradient {
    using Elem = typename Tile::Elem;
    using A = WgmmaPanel<typename Elem::Type, Tile::m, false>;
    using B = WgmmaPanel<typename Elem::Type, Tile::n, false>;
    static constexpr int lines = Tile::n / Elem::line;   // of channels of a tap
    static constexpr bool may_cast = false, by_hand = false, in_pieces = false;
    const CUtensorMap &dy, &x;
    const FastDiv& tap_columns;
    const Array<FastDiv, 3>&out, &taps;
    const Array<int, 3>&stride, &first, &dilation;
    int rank, filters, columns, channels, groups, is_flipped;
    i64 dw_m;
    int pixel = 0, filter = 0, channel[lines] = {};
    unsigned moved[lines] = {};                          // by the tap: w, h, d, a byte each

    DEVICE void ahead() const { tensor_ahead(dy), tensor_ahead(x); }
    DEVICE void box(unsigned group, int (&at)[3]) const { at[0] = group, at[1] = 0, at[2] = 0; }
    DEVICE i64 offset(unsigned group) const { return i64(group) * filters * dw_m; }
    DEVICE int column(unsigned) const { return 0; }
    DEVICE void begin(const TileAt& tile, int depth) {
        pixel = depth, filter = int(tile.matrix) * filters + tile.row;
        UNROLL for (int i = 0; i < lines; ++i) {
            unsigned chunk, tap, rest = tap_columns.divmod(tile.col + Elem::line * i, chunk);
            moved[i] = 0;
            UNROLL for (int d = 2; d >= 0; --d) {
                rest = taps[d].divmod(rest, tap);
                moved[i] |= (is_flipped ? taps[d].by - 1 - tap : tap) * dilation[d] << 8 * (2 - d);
            }
            const bool inside = tile.col + Elem::line * i < columns;     // else zeros, of no memory
            channel[i] = inside ? int(tile.matrix) * channels + int(chunk)
                                : groups * channels + Elem::chunk - 1 & -Elem::chunk;
        }
    }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        const int still[3] = {};
        int at[4];
        A::load(stage, dy, pixel, filter, still, full);
        pixel_of(pixel, out.v, at);
        UNROLL for (int d = 0; d < 3; ++d) at[d + 1] = at[d + 1] * stride[d] + first[d];
        UNROLL for (int i = 0; i < lines; ++i) {
            unsigned char* to = stage + Tile::a_bytes + i * PART;
            const int c = channel[i], by[3] = {
                int(moved[i] & 255), int(moved[i] >> 8 & 255), int(moved[i] >> 16)};
            if (rank == 4) pixels_load(to, x, {c, at[3], at[2], at[0]}, {by[0], by[1]}, full);
            else pixels_load(to, x, {c, at[3], at[2], at[1], at[0]}, by, full);
        }
        pixel += Tile::k;
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap dy, const __grid_constant__ CUtensorMap x,
    const __grid_constant__ CUtensorMap boxes, T* dw, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int groups, int splits, int team, int share, int alone, int rest,
    TileDivisors order, FastDiv steps, FastDiv lanes, int dw_form, int rank, int channels,
    int is_flipped, i64 dw_m, FastDiv tap_columns, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> stride, Array<int, 3> first, Array<int, 3> dilation, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using Source = Gradient<Tile>;
    extern __shared__ unsigned char shared[];
    __builtin_assume(n % Tile::Elem::line == 0);
    Source source = {dy, x, tap_columns, out, taps, stride, first, dilation, rank, m, n, channels, groups,
                     is_flipped, dw_m};
    const WgmmaOut<Tile, T> to = {dw, share ? nullptr : parts, alpha, beta, m, n, dw_form, 0, dw_m, 1};
    wgmma_blocks<Tile, Source::A, Source::B>(
        shared, source, TileOrder<Tile>{order, m, splits},
        Stream<Tile>{{k, split_k, team}, parts, share, alone, rest, steps, lanes}, boxes, to);
}
