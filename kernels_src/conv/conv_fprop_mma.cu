/*@kernel
name    = "conv_fprop_mma_m{tile_m}n{tile_n}_{T}_{Y}"
about   = """y[npq, k] = im2col(x)[npq, trsc] @ w[k, trsc]^T on tensor cores, NHWC, \
             tiles of {tile_m} pixels by {tile_n} filters."""
T       = ["f16", "bf16"]
Y       = ["f16", "bf16", "f32"]                  # what is stored; f32 where a copy to another layout rounds
tile_m  = [128, 64, 256]
tile_n  = [128, 64, 256, 32]
when    = ["tile_m == 128 or tile_n < 256", "(tile_m == 256) == (tile_n == 32)", "Y == T or Y == f32"]
targets = ["sm_80"]
params  = ["const T* x", "const T* w", "Y* y", "float alpha", "float beta", "int rows", "int cols",
           "int chunks", "int pixel_chunks", "int channels", "FastDiv n_tiles", "FastDiv tap_chunks",
           "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps", "Array<int, 3> size", "Array<int, 3> stride",
           "Array<int, 3> first", "Array<int, 3> step", "int groups", "Fuse fuse"]
block   = ["256 if tile_n == 256 else 128", 1, 1]
grid    = ["ceil_div(rows, tile_m) * n_tiles", "groups", 1]
smem    = "3 * (tile_m + tile_n) * 128 + 8 * tile_m + 128"
needs   = ["n_tiles == ceil_div(cols, tile_n)", "rows < 2**31 - 256"]
marks   = ["epilogue"]
problems = ["""conv_fprop n2c16d3h5w6 k21t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 stride=2,1,3 dilation=1,2,1 \
               mode=convolution {T} {'nchw' if Y == f32 else 'nhwc'}""",
            "conv_fprop n2c80h11w8 k272r3s1 groups=2 {T} {'nchw' if Y == f32 else 'nhwc'}",
            "conv_fprop n1c24h4w5 k8r1s1 {T} {'nchw' if Y == f32 else 'nhwc'}",
            "conv_fprop n1c264h4w5 k40r1s1 {T} {'nchw' if Y == f32 else 'nhwc'}"]
@*/
// rows = pixels of y (n, z, p, q); cols = filters of a group; channels = of y, all groups; the sum runs over
// `chunks` chunks (16 bytes) of (t, r, s, c), c innermost, which is the order of a filter in memory.
// tap_chunks = chunks of a tap (of a group), pixel_chunks = chunks of an x pixel. A thread copies chunk
// `lane` of every k step, for several rows: its tap is decoded once a step, so any number of whole chunks
// works without waste, and a tap of one chunk makes 8 taps a step.
#include "mma_rows.cuh"
#include "tile/mma_narrow.cuh"
#include "conv/mma_store.cuh"

namespace cydnn {
template <class Tile> struct FpropSource {
    static constexpr int pass = Tile::threads / CHUNKS, a_rows = Tile::m / pass, b_rows = Tile::n / pass;
    const char *x, *w;                                  // the group's; w: this thread's row and chunk
    Row row[a_rows];
    Window window;
    FastDiv tap_chunks, tap_r, tap_s;
    int chunks, pixel_chunks, lane, b_left;
    unsigned to;                                        // the thread's place in an operand of a stage

    DEVICE void decode(Row& into, int pixel, int pixels, const FastDiv (&out)[3]) const {
        int at[4];
        pixel_of(pixel, out, at);
        into = row_of(window, at, pixel_chunks);
        if (pixel >= pixels) into.mask = 0;
    }
    template <bool Near> DEVICE void copy_a(unsigned place, bool is_there, int delta, unsigned need) const {
        UNROLL for (int i = 0; i < a_rows; ++i) {
            const bool inside = is_there && (row[i].mask & need) == need;
            cp_async_chunk<Near>(inside, place + i * pass * LINE, x + i64(row[i].offset + delta) * CHUNK);
        }
    }
    DEVICE void load_a(int step, unsigned stage) const {
        const int at = step * CHUNKS + lane;
        unsigned chunk, r, s;
        const unsigned t = tap_r.divmod(tap_s.divmod(tap_chunks.divmod(at, chunk), s), r);
        const int delta = tap_offset(window, t, r, s, pixel_chunks) + int(chunk);
        const unsigned need = need_of(window, t, r, s);
        if (Tile::n == 32 && pixel_chunks <= NEAR) copy_a<true>(stage + to, at < chunks, delta, need);
        else copy_a<false>(stage + to, at < chunks, delta, need);
    }
    DEVICE void load_b(int step, unsigned stage) const {
        const bool inside = step * CHUNKS + lane < chunks;
        UNROLL for (int i = 0; i < b_rows; ++i) {
            const bool load = inside && i * pass < b_left;
            cp_async_if<CHUNK>(load, stage + Tile::a_bytes + to + i * pass * LINE,
                               w + (i64(i * pass) * chunks + step * CHUNKS) * CHUNK);
        }
    }
    DEVICE void ahead(int) const {}
};
}  // namespace cydnn

using Tile = MmaTile<T, tile_m, tile_n>;

extern "C" __global__ __launch_bounds__(Tile::threads, Tile::resident) void KERNEL(
    const T* x, const T* w, Y* y, float alpha, float beta, int rows, int cols, int chunks, int pixel_chunks,
    int channels, FastDiv n_tiles, FastDiv tap_chunks, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> size, Array<int, 3> stride, Array<int, 3> first, Array<int, 3> step, int groups,
    Fuse fuse) {
    extern __shared__ unsigned char dynamic[];
    unsigned char* memory = dynamic + (-shared_address(dynamic) & 127);
    const unsigned shared = shared_address(memory);
    const int thread = threadIdx.x, lane = thread % 32, group = blockIdx.y;
    const int warp_m = thread / 32 % Tile::warps_m, warp_n = thread / 32 / Tile::warps_m;
    unsigned tile;
    const int m0 = n_tiles.divmod(blockIdx.x, tile) * tile_m, n0 = tile * tile_n;

    FpropSource<Tile> source;
    source.chunks = chunks, source.pixel_chunks = pixel_chunks;
    Window& window = source.window;
    UNROLL for (int d = 0; d < 3; ++d) {
        window.size[d] = size[d], window.stride[d] = stride[d], window.taps[d] = taps[d].by;
        window.first[d] = first[d], window.step[d] = step[d];
    }
    // A thread decodes a row or two, all 8 threads that copy parts of it get it from here.
    Row* table = reinterpret_cast<Row*>(memory + Tile::stages * Tile::stage_bytes);
    NO_UNROLL for (int i = thread; i < tile_m; i += Tile::threads)
        source.decode(table[i], m0 + i, rows, out.v);
    __syncthreads();
    const int row = thread / CHUNKS;
    UNROLL for (int i = 0; i < source.a_rows; ++i) source.row[i] = table[row + i * source.pass];
    source.lane = thread % CHUNKS, source.to = swizzled(row, source.lane, LINE);
    source.b_left = cols - n0 - row;
    source.tap_chunks = tap_chunks, source.tap_r = taps[1], source.tap_s = taps[2];
    source.x = reinterpret_cast<const char*>(x) + i64(group) * tap_chunks.by * CHUNK;
    source.w = reinterpret_cast<const char*>(w) +
               (i64(group * cols + n0 + row) * chunks + source.lane) * CHUNK;

    MmaSums<Tile> sums = {};
    __builtin_assume(chunks > 0);
    mma_main<Tile>(sums, shared, ceil_div(chunks, CHUNKS), KMajorA<Tile>(shared, warp_m, lane),
                      KMajorB<Tile>(shared, warp_n, lane), source);
    auto* results = reinterpret_cast<Tile::Sum*>(memory);
    spill_sums<Tile>(results, sums, warp_m, warp_n, lane);
    const auto pixel = [&](int i) { return m0 + i < rows ? m0 + i : -1; };
    store_rows<Y, Tile>(results, y, pixel, group * cols + n0, cols - n0, channels, alpha, beta);
}
