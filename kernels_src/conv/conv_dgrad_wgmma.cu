/*@kernel
name    = "conv_dgrad_wgmma_{T}_{TILE_M}x{TILE_N}"
about   = """dx[pixels, n] = sum over taps and k of dy @ w on Hopper's tensor cores (TMA, wgmma, f32 sums), \
             channels innermost, for strides other than 1: by classes of pixels."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 192, 128, 64]
when    = ["TILE_M == 128 or TILE_N in (128, 256)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap dy", "const CUtensorMap w", "const CUtensorMap box0", "const CUtensorMap box1",
           "const CUtensorMap box2", "const CUtensorMap box3", "T* dx", "float alpha", "float beta", "int m",
           "int n", "int classes", "int groups", "int team", "Array<FastDiv, 5> order",
           "Array<FastDiv, 3> rounds", "int dx_form", "int dx_along_m",
           "int rank", "int channels", "int is_flipped", "int64_t dx_m", "int64_t dx_n",
           "Array<FastDiv, 3> out", "Array<FastDiv, 3> stride", "Array<int, 3> size", "Array<int, 3> taps",
           "Array<int, 3> first", "Array<int, 3> wrap", "Array<int, 3> up", "Array<int, 3> dilation",
           "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cluster = ["team", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "channels >= 1", "team >= 1", "4 <= rank and rank <= 5",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), groups)",
           "rounds[0] == blocks", "rounds[1] == classes",
           "rounds[2] == max(order[0] * groups % blocks, 1)",
           "classes == stride[0] * stride[1] * stride[2]", "groups == 1 or channels % 64 == 0",
           "dx_form < 2 or classes <= 4",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * groups * classes < 2147483648"]
marks   = ["epilogue"]
problems = ["""conv_dgrad n2c{TILE_N - 8}h9w5 k24r3s2 stride=2,3 dilation=1,2 pre_pad=1,0 post_pad=0,2 \
               {T} nhwc""",
            """conv_dgrad dy=1x72x3x3:{T}@720,1,216,72 w=72x{TILE_N - 3}x2x1:{T}@512,1,256,256 \
               dx=1x{TILE_N - 3}x5x6:{T}@{30 * TILE_N},30,6,1 stride=2 post_pad=1,0 mode=convolution""",
            """conv_dgrad n1c24d3h5w6 k16t2r3s2 stride=2,1,3 dilation=1,2,1 pre_pad=1,0,2 post_pad=0,2,1 \
               mode=convolution {T} nhwc""",
            """conv_dgrad n3c64h8w6 k40r3s1 stride=2 pad=1,0 {T} nhwc""",
            """{'conv_dgrad n1c128h4w5 k128r1s1 stride=2 groups=2' if TILE_M + TILE_N == 192 else ''} \
               {T if TILE_M + TILE_N == 192 else ''} {'nhwc' if TILE_M + TILE_N == 192 else ''}"""]
@*/
// Input pixel h gets tap r of output p when h + pad = p*stride + r*dilation. So the pixels of one residue
// modulo the stride are a class that sees only every stride-th tap: a correlation of unit stride of dy with a
// part of the filter, each class another one. Per dim, class e = 0 … stride-1 (stride and dilation have no
// common factor) has the taps r = e, e + stride, …; with e*dilation + wrap = q*stride + a its pixels are
// h = a + stride*i, and its tap number j reads p = i + (up - q) - j*dilation. wrap = -pad mod stride,
// up = ceil(pad / stride). Here the taps of a class are walked from the last on, so that what they read
// grows.
//
// m = pixels of a class (of all images), n = channels of a group, channels = filters of a group. All classes
// have `out` pixels, those of the largest; what lies outside dx, of `size`, is not stored. One map of dy
// serves all: its base pixels are i + first, `first` the least that a class reads. A class without taps reads
// nothing, and stores zeros. The dims of w's map: c, k, width, height, depth of the filters. dx_form as in
// tile/wgmma_blocks.cuh; boxes: classes of one size in two dims, whose maps are box0 … box3 by their first
// pixel (its row is the outer digit), and groups of whole 64 channels.
#include "mma_rows.cuh"
#include "tile/wgmma_blocks.cuh"
#include "tile/wgmma_wide.cuh"

namespace cydnn {
// A class in one dim: its first pixel and first tap, its taps, and where they begin from `first` on.
struct Residue { int pixel, tap, taps, shift; };

struct Residues {
    const Array<FastDiv, 3>&out, &stride;
    const Array<int, 3>&size, &taps, &first, &wrap, &up, &dilation;

    // kind 0 has the most taps.
    DEVICE void of(unsigned kind, Residue (&to)[3]) const {
        UNROLL for (int d = 2; d >= 0; --d) {
            unsigned e, a;
            kind = stride[d].divmod(kind, e);
            const int q = stride[d].divmod(e * dilation[d] + wrap[d], a);
            const int some = int(e) < taps[d] ? stride[d].div(taps[d] - 1 - e) + 1 : 0;
            to[d] = {int(a), int(e), some, up[d] - q - (some - 1) * dilation[d] - first[d]};
        }
    }
    // The number of a row's pixel in dx, or -1.
    DEVICE int pixel(const Residue (&kind)[3], int row) const {
        int at[4];
        pixel_of(row, out.v, at);
        int found = at[0];
        bool inside = true;
        UNROLL for (int d = 0; d < 3; ++d) {
            const int here = kind[d].pixel + at[d + 1] * int(stride[d].by);
            inside &= here < size[d], found = found * size[d] + here;
        }
        return inside ? found : -1;
    }
};

// A block takes all classes of a tile one after the other, so that blocks have equal work and dy comes from
// the L2 cache. Of the tiles that are left over, the long ones of one turn meet the short ones of the next.
// `split` is the class.
// rounds: the divisors for blocks, classes and the tiles that are left over (1 for none).
template <class Tile> struct ClassOrder {
    TileOrder<Tile> tiles;
    const Array<FastDiv, 3>& rounds;

    DEVICE unsigned count() const { return tiles.count() * rounds[1].by; }
    DEVICE TileAt operator[](unsigned index) const {
        const unsigned blocks = rounds[0].by, classes = rounds[1].by;
        const unsigned whole = rounds[0].div(tiles.count()) * blocks;
        unsigned at, kind;
        if (index < whole * classes) {
            const unsigned turn = rounds[0].divmod(index, at);
            at += rounds[1].divmod(turn, kind) * blocks;
        } else {
            unsigned rest = index - whole * classes;
            const unsigned turn = rounds[0].div(rest), last = rounds[0].div(rounds[2].by * classes - 1);
            if ((last - turn) % 2) rest = (2 * turn + 1) * blocks - 1 - rest;
            kind = rounds[2].divmod(rest, at), at += whole;
        }
        TileAt tile = tiles[at];
        tile.split = kind;
        return tile;
    }
};

// The depth of a class, shared by the blocks of a cluster.
struct ClassDepth {
    static constexpr bool may_be_empty = true, may_stream = false;
    template <class Order> using Walk = WholeTiles<Order, ClassDepth>;
    const Residues& residues;
    int chunks, team;
    DEVICE int first() const { return team == 1 ? blockIdx.x : blockIdx.x / team; }
    DEVICE int rank() const { return team == 1 ? 0 : blockIdx.x % team; }
    DEVICE int shared(int steps) const { return team == 1 ? steps : (steps + team - 1) / team; }
    DEVICE int whole(const TileAt& tile) const {
        Residue kind[3];
        residues.of(tile.split, kind);
        return kind[0].taps * kind[1].taps * kind[2].taps * chunks;
    }
    DEVICE int begin(const TileAt& tile) const { return rank() * shared(whole(tile)); }
    DEVICE int steps(const TileAt& tile) const {
        const int steps = whole(tile), each = shared(steps);
        return max(min(each, steps - rank() * each), 0);
    }
};

template <class Tile> struct ClassSource {
    using B = WgmmaPanel<typename Tile::Elem::Type, Tile::n, false>;
    static constexpr bool may_cast = false, by_hand = false, in_pieces = false;
    const CUtensorMap &dy, &w;
    const Residues& residues;
    int rank, channels, columns, is_flipped;
    i64 dx_n;
    Residue kind[3] = {};
    int at[4] = {}, tap[3] = {};                         // base pixel: n, d, h, w
    int channel = 0, w_row = 0;                          // of dy, a filter

    DEVICE void ahead() const { tensor_ahead(dy), tensor_ahead(w); }
    DEVICE i64 offset(unsigned group) const { return i64(group) * columns * dx_n; }
    DEVICE int column(unsigned group) const { return int(group) * columns; }
    DEVICE void begin(const TileAt& tile, int step) {
        residues.of(tile.split, kind);
        UNROLL for (int d = 2; d >= 0; --d) {            // without taps nothing is loaded
            const int taps = max(kind[d].taps, 1);
            tap[d] = step % taps, step /= taps;
        }
        channel = int(tile.matrix) * channels + step * Tile::k, w_row = tile.col;
        pixel_of(tile.row, residues.out.v, at);
        UNROLL for (int d = 0; d < 3; ++d) at[d + 1] += residues.first[d];
    }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        int by[3], of[3];                                // width first
        UNROLL for (int d = 0; d < 3; ++d) {
            by[2 - d] = kind[d].shift + tap[d] * residues.dilation[d];
            const int t = kind[d].tap + (kind[d].taps - 1 - tap[d]) * int(residues.stride[d].by);
            of[2 - d] = is_flipped ? residues.taps[d] - 1 - t : t;
        }
        if (rank == 4) pixels_load(stage, dy, {channel, at[3], at[2], at[0]}, {by[0], by[1]}, full);
        else pixels_load(stage, dy, {channel, at[3], at[2], at[1], at[0]}, by, full);
        B::load(stage + Tile::a_bytes, w, channel, w_row, of, full);
        if (++tap[2] < kind[2].taps) return;
        tap[2] = 0;
        if (++tap[1] < kind[1].taps) return;
        tap[1] = 0;
        if (++tap[0] < kind[0].taps) return;
        tap[0] = 0, channel += Tile::k;
    }
};

// The way out: every row has a pixel of its own, which lane r % 16 knows for the rows of a slice.
template <class T> struct ClassOut {
    static constexpr bool is_matrix = false, has_boxes = false;
    const CUtensorMap &box0, &box1, &box2, &box3;
    T* dx;
    const Residues& residues;
    float alpha, beta;
    int m, n, form, along_m;
    i64 dx_m, dx_n;

    template <class Tile>
    DEVICE void put(const typename Tile::Sum (&d)[Tile::sums], const WgmmaRing<Tile>& ring, int group,
                    i64 first, int column, const TileAt& tile, const ClassDepth& depth) const {
        Residue kind[3];
        residues.of(tile.split, kind);
        if (form == BOXES && beta == 0.f)
            return put_boxes<Tile>(d, ring.way_out(group), group, column, tile, kind);
        const auto write = [&](const auto& sums, int row, int col) {
            if (tile.col + col >= n) return;
            const Slice slice = floats_of(sums);
            const int mine = tile.row + row + int(threadIdx.x) % 16;
            const int pixel = mine < m ? residues.pixel(kind, mine) : -1;
            if (form != ELEMENTS) put_vectors(slice, first, column, pixel, tile.col + col);
            else put_elements(slice, first, column, pixel, tile.col + col);
        };
        unsigned char* out = ring.way_out(group);
        if (depth.team == 1) store_rows<Tile>(d, out, group, write);
        else store_added<Tile>(d, ring.stages, out, group, depth.team, depth.rank(), write);
    }

    template <class Tile>
    DEVICE void put_boxes(const typename Tile::Sum (&d)[Tile::sums], unsigned char* out, int group,
                          int column, const TileAt& tile, const Residue (&kind)[3]) const {
        const int which = kind[1].pixel * int(residues.stride[2].by) + kind[2].pixel;
        const CUtensorMap& box = which < 2 ? which == 0 ? box0 : box1 : which == 2 ? box2 : box3;
        int at[4];
        pixel_of(tile.row + slice_row<Tile>(group, 0), residues.out.v, at);
        store_boxes<T, Tile>(d, out, alpha, group, [&](int s, const unsigned char* from) {
            const int col = tile.col + slice_col<Tile>(group, s);
            if (col < n) pixels_store(box, {column + col, at[3], at[2], at[0]}, from);
        });
    }

    DEVICE void put_vectors(const Slice& slice, i64 first, int column, int pixel, int col0) const {
        const int lane = threadIdx.x % 32, r = lane / 8, q = lane % 8 * 8, col = col0 + q;
        Slice here = slice;                                  // 4 rows at once: the swizzle repeats with them
        NO_UNROLL for (int e = 0; e < 16; e += 4, here.at += 1024) {
            const int at = __shfl_sync(~0u, pixel, r + e);
            if (at < 0 || col >= n) continue;
            const i64 off = first + at * dx_m + col;
            float v[8], old[8];
            here.get(v, r, q);
            UNROLL for (int x = 0; x < 8; ++x) v[x] *= alpha;
            if (beta != 0.f) {
                Vec<T, 8>::load(dx + off).get(old);
                UNROLL for (int x = 0; x < 8; ++x) v[x] += beta * old[x];
            }
            fuse_epilogue(v, off, column + col);
            Vec<T, 8>::of(v).store(dx + off);
        }
    }

    DEVICE void put_elements(const Slice& slice, i64 first, int column, int pixel, int col0) const {
        const int count = along_m ? 32 * min((n - col0 + 1) / 2, 32) : 1024;
        NO_UNROLL for (int e = threadIdx.x % 32; e < count; e += 32) {
            const int r = along_m ? e % 16 : e / 64, q = along_m ? e / 16 : e % 64, col = col0 + q;
            const int at = __shfl_sync(~0u, pixel, r);
            if (at < 0 || col >= n) continue;
            const i64 off = first + at * dx_m + col * dx_n;
            float v[1] = {blend(alpha, slice.get(r, q), beta, dx + off)};
            fuse_epilogue(v, off, column + col);
            dx[off] = from_acc<T>(v[0]);
        }
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap dy, const __grid_constant__ CUtensorMap w,
    const __grid_constant__ CUtensorMap box0, const __grid_constant__ CUtensorMap box1,
    const __grid_constant__ CUtensorMap box2, const __grid_constant__ CUtensorMap box3, T* dx, float alpha,
    float beta, int m, int n, int classes, int groups, int team, TileDivisors order,
    Array<FastDiv, 3> rounds, int dx_form, int dx_along_m, int rank, int channels, int is_flipped,
    i64 dx_m, i64 dx_n, Array<FastDiv, 3> out, Array<FastDiv, 3> stride, Array<int, 3> size,
    Array<int, 3> taps, Array<int, 3> first, Array<int, 3> wrap, Array<int, 3> up, Array<int, 3> dilation,
    Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using Source = ClassSource<Tile>;
    extern __shared__ unsigned char shared[];
    const Residues residues = {out, stride, size, taps, first, wrap, up, dilation};
    Source source = {dy, w, residues, rank, channels, n, is_flipped, dx_n};
    const ClassOut<T> to = {box0, box1, box2, box3, dx, residues, alpha, beta, m, n, dx_form, dx_along_m,
                            dx_m, dx_n};
    wgmma_blocks<Tile, A, Source::B>(shared, source, ClassOrder<Tile>{{order, m, 1}, rounds},
                                     ClassDepth{residues, (channels + Tile::k - 1) / Tile::k, team}, dy, to);
}
