/*@kernel
name    = "conv_first_{T}{FUSES}"
about   = """y[pixels, k] = windows(x)[pixels, taps and channels] @ w on Hopper's tensor cores (wgmma, f32 \
             sums) for images of at most 8 channels: windows are read where the rows of the image lie."""
T       = ["f16", "bf16"]
FUSES   = ["", "_pairs"]
targets = ["sm_90a"]
params  = ["const T* x", "const T* w", "const CUtensorMap boxes", "T* y", "float alpha", "float beta",
           "int64_t x_n", "int64_t x_h", "int x_w", "int height", "int width", "int channels",
           "int lanes_log", "int stride_h", "int stride_w", "int top", "int left", "int strip", "int strips",
           "int step", "int places", "int part_bytes", "int last_part", "int last_place", "int kept",
           "int ring", "int taps_h", "int taps_w", "int dilation_h", "int chunks", "int64_t w_k",
           "int64_t w_c", "int64_t w_h", "int64_t w_w", "int k", "int tiles", "int teams", "int count",
           "int rows", "int columns", "int y_form", "int y_along_m", "int64_t y_n", "int64_t y_h",
           "int64_t y_w", "int64_t y_c", "Fuse fuse"]
block   = ["640 if FUSES == '_pairs' else 512", 1, 1]
grid    = ["blocks", 1, 1]
smem    = """33024 + (32768 if FUSES == '_pairs' else 0) + 1024 + 1024 + 512 \
             + tiles * taps_h * ((chunks + 1) // 2) * 2048 \
             + ring * part_bytes * (step + (1 if kept < 8 else 0))"""
extra   = ["blocks"]
needs   = ["channels >= 1", "channels <= 1 << lanes_log", "lanes_log <= 3",
           "stride_w << lanes_log == 8 * step", "step == 1 or step % 2 == 0", "strip % 64 == 0",
           "strip * strips >= columns", "part_bytes % 16 == 0",
           "part_bytes >= 16 * (strip + (chunks - 1) // step)", "part_bytes >= 16 * places",
           "last_place * step + last_part == chunks - 1",
           "taps_w << lanes_log == 8 * (chunks - 1) + kept", "ring > (taps_h - 1) * dilation_h",
           "ring >= 1", "count >= 1", "tiles * teams * 64 >= k", "blocks % teams == 0",
           "chunks <= 256", "tiles * (teams - 1) * 64 < k"]
marks   = ["epilogue", "{'pairs' if FUSES == '_pairs' else ''}"]
problems = ["""conv_fprop n2c3h13w150 k72r3s7 stride=2 dilation=2,1 pre_pad=3,2 post_pad=1,4 {T} nhwc""",
            """conv_fprop x=2x3x9x11:{T}@1000,1,80,5 w=21x3x2x3:{T}@24,1,12,4 y=2x21x5x9:{T}@2000,45,9,1 \
               stride=2,1 pre_pad=1,0 mode=convolution""",
            """conv_fprop n3c1w300 k64s20 stride=8 pad=7 {T} nhwc""",
            """conv_fprop n1c3h23w70 k24r5s11 stride=4 pad=2 {T} nhwc""",
            "conv_fprop n2c2h3w33 k72r1s16 stride=2,8 {T} nhwc",
            "conv_fprop n2c1h3w70 k64r2s1 stride=2,2 pad=3 {T} nhwc",
            "conv_fprop n2c1h3w9 k24r1s1 stride=1,8 pad=3 {T} nhwc",
            "conv_fprop n1c3h5w9 k8r1s5 stride=2,8 pad=3 {T} nhwc",
            "conv_fprop n2c8h5w33 k16r3s16 stride=1,8 {T} nhwc",
            "conv_fprop n1c8h5w20 k64r2s7 stride=2,1 {T} nhwc"]
@*/
// m = outputs of a row of y, n = its channels, k = for each row of filters the chunks of a window
// (first.cuh), in pairs. Output o reads pixel o * stride - (top, left) + (r * dilation_h, s) for tap (r, s).
// A block keeps the filters of `tiles` times 64 channels, as cores: chunk t of row r of filter f of a tile
// lies at ((tile * taps_h + r) * pairs * 2 + t) * 1024 + f * 16. The blocks of a team, `teams` in all, have
// the same channels, and share the rows of y; eight warps bring lines, two warpgroups multiply (_pairs: four
// and four, for what is fused takes longer): 64 outputs of a row by 64 channels are one's, the next the next
// one's. y_form as in tile/wgmma_blocks.cuh; FUSED is for _pairs alone, which has no other. The map of
// `boxes` has dims channels, columns, rows, images.
#include "first.cuh"
#include "tile/wgmma_blocks.cuh"

namespace cydnn {

constexpr int CORES = 1024;                      // bytes: a chunk of 64 filters

// The filters of `tiles` times 64 channels from `first` on.
struct FirstFilters {
    const unsigned short* w;
    i64 w_k, w_c, w_h, w_w;
    int k, channels, lanes_log, taps_h, taps_w, pairs;

    template <int Threads> DEVICE void load(unsigned char* to, int first, int tiles, int thread) const {
        const unsigned row = 2 * pairs, all = tiles * 64 * taps_h * row;
        _Pragma("unroll 4") for (unsigned e = thread; e < all; e += Threads) {   // loads of four on their way
            const unsigned t = e % row, r = e / row % taps_h, f = e / row / taps_h;
            const unsigned short* from = w + (first + f) * w_k + r * w_h;
            unsigned v[8];
            UNROLL for (int i = 0; i < 8; ++i) {
                const int at = 8 * t + i, s = at >> lanes_log, c = at & (1 << lanes_log) - 1;
                const bool is = first + f < k && s < taps_w && c < channels;
                v[i] = is ? __ldg(from + c * w_c + s * w_w) : 0;
            }
            *reinterpret_cast<uint4*>(to + ((f / 64 * taps_h + r) * row + t) * CORES + f % 64 * 16) = {
                v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16};
        }
    }
};

// How windows are read, two chunks at a time. Addresses in units of 16 bytes, as descriptors have them.
struct FirstPairs {
    const unsigned* at;                          // in shared memory: of a pair in a line, the second << 16
    int pairs, rows, ring, dilation, line;
    unsigned lines, zeros, last;                 // zeros: 0 where the last pair is whole; it begins at `last`

    // One thread for each pair.
    static DEVICE void place(unsigned* at, const FirstImage& image, int chunks, int pair) {
        const unsigned first = image.chunk(2 * pair);
        at[pair] = first >> 4 | (2 * pair + 1 < chunks ? image.chunk(2 * pair + 1) - first : 0) << 12;
    }
    // d = the windows from `from` on in the lines, of which the first is in `slot`, times the filters at `b`.
    template <class Elem> DEVICE void multiply(float (&d)[32], int slot, int from, unsigned b) const {
        if (pairs == 1) rows_of<Elem, 1>(d, slot, from, b);              // most have few
        else if (pairs == 2) rows_of<Elem, 2>(d, slot, from, b);
        else rows_of<Elem, 0>(d, slot, from, b);
        wgmma_wait<0>(d);
    }
    // Known: pairs, or 0.
    template <class Elem, int Known>
    DEVICE void rows_of(float (&d)[32], int slot, int from, unsigned b) const {
        unsigned ahead[Known > 0 ? Known : 1];
        UNROLL for (int i = 0; i < Known; ++i) ahead[i] = at[i];
        if (!Known) ahead[0] = at[0];
        int left = rows, keep = 0;
        do {
            const unsigned windows = lines + slot * line + from;
            const unsigned behind = zeros ? zeros - windows - last << 16 : 0;
            if constexpr (Known > 0) {
                wgmma_begin(d);
                UNROLL for (int i = 0; i < Known; ++i, keep = 1, b += 2 * CORES >> 4)
                    add<Elem>(d, windows + ahead[i] + (i + 1 == Known ? behind : 0), b, keep);
                wgmma_commit();
            } else {
                int pair = 0;
                do {                             // a group each, and at least one: ptxas has to see that
                    const unsigned a = windows + ahead[0] + (++pair == pairs ? behind : 0);
                    ahead[0] = at[pair < pairs ? pair : 0];
                    wgmma_begin(d);
                    add<Elem>(d, a, b, keep);
                    wgmma_commit();
                    keep = 1, b += 2 * CORES >> 4;
                } while (pair < pairs);
            }
            slot += dilation;
            if (slot >= ring) slot -= ring;
        } while (--left);
    }
    template <class Elem> static DEVICE void add(float (&d)[32], unsigned a, unsigned b, int keep) {
        const uint64_t across = uint64_t(128 >> 4) << 32;
        Wgmma<Elem, 64>::template add<0, 0>(d, across | a, across | b | CORES >> 4 << 16, keep);
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(given(FUSES) == BY_GROUP ? 512 : 640, 1) void KERNEL(
    const T* x, const T* w, const __grid_constant__ CUtensorMap boxes, T* y, float alpha, float beta, i64 x_n,
    i64 x_h, int x_w, int height, int width, int channels, int lanes_log, int stride_h, int stride_w, int top,
    int left, int strip, int strips, int step, int places, int part_bytes, int last_part, int last_place,
    int kept, int ring_lines, int taps_h, int taps_w, int dilation_h, int chunks, i64 w_k, i64 w_c, i64 w_h,
    i64 w_w, int k, int tiles, int teams, int count, int rows, int columns, int y_form, int y_along_m,
    i64 y_n, i64 y_h, i64 y_w, i64 y_c, Fuse fuse) {
    constexpr bool fuses = given(FUSES) != BY_GROUP;
    constexpr int groups = fuses ? 4 : 2, fillers = fuses ? 4 : FILLERS;
    using Tile = WgmmaTile<T, 128, 64, given(FUSES)>;      // of the ways out: a warpgroup has 64 rows
    extern __shared__ unsigned char shared[];
    const FirstImage image = {
        first_lanes(x), x_n, x_h, x_w, height, width, channels, lanes_log,
        stride_h, stride_w, top, left, strip, step, places, part_bytes, last_part, last_place, kept};
    const int pairs = (chunks + 1) / 2, row_bytes = pairs * 2 * CORES, line_bytes = image.line_bytes();
    unsigned char* outs = shared + (-shared_address(shared) & 1023);
    unsigned char *filters = outs + groups * SLICE, *lines = filters + tiles * taps_h * row_bytes;
    unsigned char* zeros = lines + ring_lines * line_bytes;
    uint64_t* barriers = reinterpret_cast<uint64_t*>(zeros + 1024);
    unsigned* pair_at = reinterpret_cast<unsigned*>(barriers + 2 * ROW_EVENTS);
    const FirstRing ring = {lines, barriers, barriers + ROW_EVENTS};
    const int column = blockIdx.x % teams * tiles * 64;
    const unsigned block = blockIdx.x / teams, blocks = gridDim.x / teams;
    const unsigned begin = i64(count) * block / blocks, end = i64(count) * (block + 1) / blocks;
    FirstWalk walk(rows, strips, (taps_h - 1) * dilation_h + 1, stride_h, ring_lines, begin);

    if (threadIdx.x == 0) ring.begin(4 * groups, fillers), tensor_ahead(boxes);
    if (threadIdx.x < pairs) FirstPairs::place(pair_at, image, chunks, threadIdx.x);
    FirstImage::clear(lines, ring_lines * line_bytes + 1024);
    fence_async();
    __syncthreads();
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    if (role < fillers / 4) {
        if constexpr (!fuses) registers_give<88>();
        first_fill<fillers>(image, ring, walk, end - begin, threadIdx.x / 32);
        return;
    }
    if constexpr (!fuses) registers_take<168>();
    const FirstFilters source = {
        first_lanes(w), w_k, w_c, w_h, w_w, k, channels, lanes_log, taps_h,
        taps_w, pairs};
    source.load<128 * groups>(filters, column, tiles, threadIdx.x - 32 * fillers);
    fence_async();
    asm volatile("bar.sync 5, %0;" :: "n"(128 * groups) : "memory");

    const int group = role - fillers / 4;
    unsigned char* out = outs + group * SLICE;
    const WgmmaOut<Tile, T> to = {y, nullptr, alpha, beta, columns, k, y_form, y_along_m, y_w, y_c};
    const FirstPairs windows = {
        pair_at, pairs, taps_h, ring_lines, dilation_h, line_bytes >> 4, shared_address(lines) >> 4,
        chunks % 2 ? shared_address(zeros) >> 4 : 0, image.chunk(chunks - 1) >> 4};
    const int used = min(tiles, (k - column + 63) / 64);
    int at = 0, tile = group;                    // this group's next, from the row's first on
    NO_UNROLL for (; tile >= used; tile -= used) at += 64;
    NO_UNROLL for (unsigned i = 0; i < end - begin; ++i, walk.next()) {
        ring.wait_full(i);
        const i64 first = walk.n * y_n + walk.p * y_h;
        const int wide = min(strip, columns - walk.strip * strip);
        NO_UNROLL while (at < wide) {
            const int q = walk.strip * strip + at, col = column + tile * 64;
            Tile::Sum d[Tile::sums];
            const unsigned b = shared_address(filters) + tile * taps_h * row_bytes;
            windows.multiply<T>(d, walk.at, at, b >> 4);
            if (to.goes_in_boxes() && (!fuses || col + 64 <= k)) {
                const int image_at[3] = {walk.p, walk.n, 0};
                const auto change = [&](auto& v, auto s) { to.change(v, first, 0, q, col, s); };
                if constexpr (fuses) {
                    if (to.has_rows(q))
                        store_changed<T, Tile>(d, out, boxes, q, col, image_at, alpha, group, change);
                } else store_boxes<T, Tile>(d, out, boxes, q, col, image_at, alpha, group);
            } else {
                if (fuses) boxes_leave<Tile>(group);         // those of the part before
                store_rows<Tile>(d, out, group, [&](const Slice& slice, int row, int c) {
                    const int from = q - 64 * group;         // the row counts those of the other groups, too
                    to.write(slice, first, 0, from + row, col + c, threadIdx.x % 32);
                });
            }
            NO_UNROLL for (tile += groups; tile >= used; tile -= used) at += 64;
        }
        at -= max(wide + 63, 0) / 64 * 64;
        __syncwarp();                            // each warp: none may be 16 rows behind, at the same barrier
        if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + ring.at(i));
    }
    if (sends_boxes<Tile>()) store_wait_read<0>();     // shared memory goes with the block
}
