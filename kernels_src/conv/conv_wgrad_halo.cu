/*@kernel
name    = "conv_wgrad_halo_{T}"
about   = """Sums of dw[k, taps and channels] = dy[pixels, k]^T @ im2col(x)[pixels, taps and channels] for \
             unit stride on Hopper's tensor cores (TMA, wgmma): rows of x and what lies around come once for \
             all taps."""
T       = ["f16", "bf16"]
targets = ["sm_90a"]
params  = ["const CUtensorMap dy", "const CUtensorMap x", "float* parts", "int filters", "int channels",
           "int tap_channels", "int works", "int each", "int splits", "int rows", "int columns", "int pitch",
           "int steps", "int x_rows", "int stages", "int is_flipped", "Array<int, 3> taps",
           "Array<int, 3> dilation",
           "Array<int, 3> first", "FastDiv strips", "FastDiv row_blocks", "FastDiv depth",
           "FastDiv tiles_c", "FastDiv tiles_k", "FastDiv tap_groups", "FastDiv tap_depth", "int groups"]
block   = [384, 1, 1]
grid    = ["tiles_c * tiles_k * tap_groups * tap_depth * groups", "splits", 1]
smem    = "1024 + 128 * stages * (16 * steps + x_rows)"
needs   = ["filters >= 1", "channels >= 1", "tap_channels % 64 == 0", "channels <= tap_channels",
           "tiles_c * 64 == tap_channels", "tiles_k == ceil_div(filters, 64)", "tap_depth == taps[0]",
           "tap_groups == ceil_div(taps[1] * taps[2], 9)", "each * splits >= works",
           "each * (splits - 1) < works", "splits < 65536", "rows * columns <= 16 * steps", "pitch <= 256",
           "columns <= pitch", "strips == 1 or rows == 1",
           "1 <= stages and stages <= 8", "x_rows % 8 == 0", "rows + (taps[1] - 1) * dilation[1] <= 256",
           "16 * steps + ((taps[1] - 1) * dilation[1]) * pitch + (taps[2] - 1) * dilation[2] <= x_rows"]
problems = ["""conv_wgrad n2c64h9w13 k40r3s2 dilation=1,2 pre_pad=1,0 post_pad=0,2 {T} nhwc""",
            """conv_wgrad n1c21d3h5w6 k24t2r3s4 dilation=1,2,1 pre_pad=1,0,2 post_pad=0,2,1 \
               mode=convolution x=1x21x3x5x6:{T}@2160,1,720,144,24 dw=24x21x2x3x4:{T} {T} nhwc""",
            "conv_wgrad n1c16h3w260 k8r3s3 pad1 {T} nhwc",
            """conv_wgrad n3c128h19w5 k72r3s3 pad1 groups=2 {T} nhwc"""]
@*/
// A block: 64 filters x 64 channels x up to 9 taps of one depth of the filter, over `each` of the works: a
// work is `rows` rows of one image of dy, or one of `strips` parts of a row. A stage has these rows, `pitch`
// = width + reach of the taps pixels each, zeros where dy has no pixel, up to whole steps of 16 pixels
// (MmaElem::k); then as many rows of x and those that the taps reach, of the same pitch. Of a part of a row
// dy has `columns` pixels, and zeros up to whole steps. So tap (r, s) of the pixel at place i is the pixel of
// x at place i + r * dilation * pitch + s * dilation: the same panel, begun further down. parts: [split]
// [filter][tap][tap_channels] of all groups. first: -pad. The dims of the maps: c, w, h, d, n.
#include "lib/hopper.cuh"

namespace cydnn {
constexpr int TAPS = 9, LESS = TAPS / 2;                 // of a block; the second warpgroup has LESS

struct HaloStages {
    unsigned char* at;
    uint64_t *full, *empty;
    int bytes, x_offset, count, stage;
    unsigned phase;
    DEVICE unsigned char* dy() const { return at + stage * bytes; }
    DEVICE unsigned char* x() const { return dy() + x_offset; }
    DEVICE void next() {
        if (++stage == count) stage = 0, phase ^= 1;
    }
};

constexpr int SIDE = 64;                                 // filters, and channels, of a tile

// Both operands are mn-major, a line for each pixel.
template <class T> struct Across {
    static_assert(MmaElem<T>::line == SIDE, "wgmma reads mn-major only types of 16 bits");
    static constexpr int next = MmaElem<T>::k * LINE >> 4;   // product, in a descriptor
    static DEVICE uint64_t at(unsigned address) { return swizzled_panel(address, SIDE * LINE, 8 * LINE); }
};

// A warpgroup: d[i] = the sums of its i-th tap over `works` stages; shifts in bytes.
template <class T, int Taps>
DEVICE void halo_sums(float (&d)[Taps][32], HaloStages& ring, int works, int steps,
                      const unsigned (&shift)[Taps]) {
    const bool speaks = threadIdx.x % 128 == 0;
    uint64_t *read = nullptr, *reads = nullptr;
    uint64_t a = 0, b = 0;
    int step = 0;
    NO_UNROLL for (int left = works * steps; left > 0; --left) {
        if (step == 0) {
            barrier_wait(ring.full + ring.stage, ring.phase);
            a = Across<T>::at(shared_address(ring.dy())), b = Across<T>::at(shared_address(ring.x()));
            reads = ring.empty + ring.stage;
            ring.next();
        }
        UNROLL for (int i = 1; i < Taps; ++i) sums_change(d[i]);
        wgmma_begin(d[0]);
        UNROLL for (int i = 0; i < Taps; ++i)
            Wgmma<T, SIDE>::template add<1, 1>(d[i], a, b + (shift[i] >> 4), left < works * steps);
        wgmma_commit();
        if (left < works * steps) {
            wgmma_wait<1>();
            if (step == 0 && speaks) barrier_arrive(read);
        }
        read = reads;
        a += Across<T>::next, b += Across<T>::next;
        if (++step == steps) step = 0;
    }
    wgmma_wait<0>();
    UNROLL for (int i = 0; i < Taps; ++i) sums_change(d[i]);
}

struct HaloTile {
    int filter, channel, group, tap, tap_at;             // from which on; tap_at: of the depth
};

// `of`: sizes of a filter's plane, `left`: taps of this block from tile.tap on; the others are the first
// again, and go nowhere.
template <class T, int Taps>
DEVICE void halo_taps(HaloStages& ring, int works, int steps, int from, int left, const HaloTile& tile,
                      const Array<int, 3>& taps, const Array<int, 3>& dilation, int pitch, int is_flipped,
                      float* parts, int filters, int channels) {
    unsigned shift[Taps];
    UNROLL for (int i = 0; i < Taps; ++i) {
        const int tap = tile.tap + (from + i < left ? from + i : 0), r = tap / taps[2], s = tap % taps[2];
        const int down = is_flipped ? taps[1] - 1 - r : r, right = is_flipped ? taps[2] - 1 - s : s;
        shift[i] = (down * dilation[1] * pitch + right * dilation[2]) * LINE;
    }
    float d[Taps][32];
    halo_sums<T, Taps>(d, ring, works, steps, shift);
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    UNROLL for (int i = 0; i < Taps; ++i) {
        if (from + i >= left) continue;
        const i64 tap = i64(tile.tap_at) * taps[1] * taps[2] + tile.tap + from + i;
        UNROLL for (int half = 0; half < 2; ++half) {
            const int filter = tile.filter + 16 * warp + lane / 4 + 8 * half;
            if (filter >= filters) continue;
            const i64 row = (i64(tile.group) * filters + filter) * taps[0] * taps[1] * taps[2] + tap;
            float* to = parts + row * channels + tile.channel + 2 * (lane % 4);
            UNROLL for (int j = 0; j < 8; ++j)
                *reinterpret_cast<float2*>(to + 8 * j) = make_float2(d[i][4 * j + 2 * half],
                                                                     d[i][4 * j + 2 * half + 1]);
        }
    }
}

// Rows of zeros: [first, last) of every stage.
DEVICE void zero_rows(const HaloStages& ring, int first, int last) {
    for (int stage = 0; stage < ring.count; ++stage)
        for (int e = first * CHUNKS + int(threadIdx.x); e < last * CHUNKS; e += blockDim.x)
            *reinterpret_cast<uint4*>(ring.at + stage * ring.bytes + e * CHUNK) = make_uint4(0, 0, 0, 0);
}
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap dy, const __grid_constant__ CUtensorMap x, float* parts, int filters,
    int channels, int tap_channels, int works, int each, int splits, int rows, int columns, int pitch,
    int steps, int x_rows, int stages, int is_flipped, Array<int, 3> taps, Array<int, 3> dilation,
    Array<int, 3> first,
    FastDiv strips, FastDiv row_blocks, FastDiv depth, FastDiv tiles_c, FastDiv tiles_k, FastDiv tap_groups,
    FastDiv tap_depth, int groups) {
    constexpr int depth_each = MmaElem<T>::k;            // pixels of a step
    extern __shared__ unsigned char shared[];
    __shared__ uint64_t barriers[16];
    HaloStages ring = {shared + (-shared_address(shared) & 1023), barriers, barriers + 8,
                       LINE * (depth_each * steps + x_rows), LINE * depth_each * steps, stages, 0, 0};
    const int reach = rows + (taps[1] - 1) * dilation[1];                // rows of x in a stage
    zero_rows(ring, rows * columns, depth_each * steps);
    zero_rows(ring, depth_each * steps + reach * pitch, depth_each * steps + x_rows);
    if (threadIdx.x == 0) {
        UNROLL for (int s = 0; s < 8; ++s) barrier_init(ring.full + s, 1), barrier_init(ring.empty + s, 2);
        barriers_begin();
        tensor_ahead(dy), tensor_ahead(x);
    }
    fence_async();
    __syncthreads();

    unsigned c, k, tap, t;
    HaloTile tile;
    const unsigned plane_taps = tiles_k.divmod(tiles_c.divmod(blockIdx.x, c), k);
    tile.group = tap_depth.divmod(tap_groups.divmod(plane_taps, tap), t);
    tile.filter = k * SIDE, tile.channel = c * SIDE, tile.tap = tap * TAPS, tile.tap_at = t;
    const int begin = blockIdx.y * each, count = min(each, works - begin);
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    if (role == 0) {
        registers_give<40>();
        const int at_t = int(is_flipped ? taps[0] - 1 - t : t) * dilation[0] + first[0];
        if (threadIdx.x == 0) NO_UNROLL for (int work = begin; work < begin + count; ++work, ring.next()) {
            unsigned strip, block, plane;
            const unsigned rest = row_blocks.divmod(strips.divmod(unsigned(work), strip), block);
            const unsigned image = depth.divmod(rest, plane);
            const int row = int(block) * rows, col = int(strip) * columns;
            barrier_wait(ring.empty + ring.stage, ring.phase ^ 1);       // a new barrier lets it pass
            barrier_expect(ring.full + ring.stage, (rows * columns + reach * pitch) * LINE);
            tensor_load(ring.dy(), dy, {tile.group * filters + tile.filter, col, row, int(plane), int(image)},
                        ring.full + ring.stage);
            tensor_load(ring.x(), x, {tile.group * channels + tile.channel, col + first[2], row + first[1],
                                      int(plane) + at_t, int(image)}, ring.full + ring.stage);
        }
        return;
    }
    registers_take<232>();
    float* to = parts + i64(blockIdx.y) * groups * filters * taps[0] * taps[1] * taps[2] * tap_channels;
    const int left = min(TAPS, taps[1] * taps[2] - tile.tap);
    if (role == 1)
        halo_taps<T, TAPS - LESS>(ring, count, steps, 0, left, tile, taps, dilation, pitch, is_flipped, to,
                                  filters, tap_channels);
    else
        halo_taps<T, LESS>(ring, count, steps, TAPS - LESS, left, tile, taps, dilation, pitch, is_flipped, to,
                           filters, tap_channels);
}
