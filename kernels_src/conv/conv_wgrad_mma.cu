/*@kernel
name    = "conv_wgrad_mma_m{tile_m}n{tile_n}_{T}"
about   = """sums[split, k, trsc] = dy^T @ im2col(x) over a range of pixels, on tensor cores, NHWC, \
             tiles of {tile_m} filters by {tile_n} (tap, channel)."""
T       = ["f16", "bf16"]
tile_m  = [128, 64]
tile_n  = [128, 64, 256]
when    = ["tile_m == 128 or tile_n < 256"]
targets = ["sm_80"]
params  = ["const T* x", "const T* dy", "float* sums", "int pixels", "int range", "int k", "int chunks",
           "int pixel_chunks", "int dy_chunks", "FastDiv n_tiles", "FastDiv tap_chunks",
           "Array<FastDiv, 3> out", "Array<FastDiv, 3> taps", "Array<int, 3> size", "Array<int, 3> stride",
           "Array<int, 3> first", "Array<int, 3> step", "int splits", "int groups"]
block   = ["256 if tile_n == 256 else 128", 1, 1]
grid    = ["ceil_div(k, tile_m) * n_tiles", "splits", "groups"]
smem    = "3 * (tile_m + tile_n) * 128 + 4 * 64 * 8 + 128"
needs   = ["n_tiles == ceil_div(chunks * 8, tile_n)", "range % 64 == 0", "splits * range >= pixels",
           "(splits - 1) * range < pixels", "pixels < 2**31 - 256"]
problems = ["""conv_wgrad n2c21d4h8w9 k13t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 stride=1,2,1 dilation=2,1,3 \
               mode=convolution {T} nhwc""",
            "conv_wgrad n2c64h14w12 k272r3s1 groups=2 {T} nhwc"]
@*/
// The sum runs over the pixels (n, z, p, q) of dy, `range` of them for each split; conv_wgrad_mma_sum adds
// the splits in order. k = filters of a group; chunks = chunks (16 bytes) of all taps of a group, (t, r, s,
// c) with c innermost. Both operands are mn-major: a row of a stage is a pixel. A thread copies one (tap,
// channel chunk) of several pixels, so its tap never changes; where the pixels lie is decoded by as many
// threads as a step has pixels, one k step before it is needed, into a ring of 4 tables.
#include "lib/math.cuh"
#include "mma_rows.cuh"
#include "tile/mma.cuh"

namespace cydnn {
template <class Tile> struct WgradSource {
    using Elem = typename Tile::Elem;
    static constexpr int a_chunks = Tile::m / Elem::chunk, b_chunks = Tile::n / Elem::chunk;
    static constexpr int a_pass = Tile::threads / a_chunks, a_rows = Tile::k / a_pass;
    static constexpr int b_pass = Tile::threads / b_chunks, b_rows = Tile::k / b_pass;
    const char *x, *dy;        // dy: this thread's first pixel and filter chunk; x: its tap and channel chunk
    Row* table;
    FastDiv out[3];
    Window window;
    int begin, end, pixel_chunks, dy_chunks, a_row, b_row, delta;
    unsigned need, a_to, b_to;
    bool a_inside, b_inside;

    DEVICE void ahead(int step) const {
        if (threadIdx.x >= Tile::k) return;
        const int pixel = begin + step * Tile::k + int(threadIdx.x);
        int at[4];
        pixel_of(pixel, out, at);
        Row row = row_of(window, at, pixel_chunks);
        if (pixel >= end) row.mask = 0;
        table[step % 4 * Tile::k + threadIdx.x] = row;
    }
    DEVICE void load_a(int step, unsigned stage) const {
        const char* from = dy + i64(step) * Tile::k * dy_chunks * CHUNK;
        UNROLL for (int i = 0; i < a_rows; ++i) {
            const bool load = a_inside && begin + step * Tile::k + a_row + i * a_pass < end;
            cp_async_if<CHUNK>(load, stage + a_to + i * a_pass * a_chunks * CHUNK,
                               from + i64(i * a_pass) * dy_chunks * CHUNK);
        }
    }
    DEVICE void load_b(int step, unsigned stage) const {
        UNROLL for (int i = 0; i < b_rows; ++i) {
            const Row row = table[step % 4 * Tile::k + b_row + i * b_pass];
            const bool inside = b_inside && (row.mask & need) == need;
            cp_async_if<CHUNK>(inside, stage + Tile::a_bytes + b_to + i * b_pass * b_chunks * CHUNK,
                               x + i64(row.offset + delta) * CHUNK);
        }
    }
};
}  // namespace cydnn

using Tile = MmaTile<T, tile_m, tile_n>;

extern "C" __global__ __launch_bounds__(Tile::threads, Tile::resident) void KERNEL(
    const T* x, const T* dy, float* sums, int pixels, int range, int k, int chunks, int pixel_chunks,
    int dy_chunks, FastDiv n_tiles, FastDiv tap_chunks, Array<FastDiv, 3> out, Array<FastDiv, 3> taps,
    Array<int, 3> size, Array<int, 3> stride, Array<int, 3> first, Array<int, 3> step, int splits,
    int groups) {
    extern __shared__ unsigned char dynamic[];
    unsigned char* memory = dynamic + (-shared_address(dynamic) & 127);
    const unsigned shared = shared_address(memory);
    const int thread = threadIdx.x, lane = thread % 32, warp_m = thread / 32 % 2, warp_n = thread / 64;
    const int group = blockIdx.z;
    unsigned tile;
    const int m0 = n_tiles.divmod(blockIdx.x, tile) * tile_m, n0 = tile * tile_n;

    WgradSource<Tile> source;
    UNROLL for (int d = 0; d < 3; ++d) {
        source.window.size[d] = size[d], source.window.stride[d] = stride[d];
        source.window.taps[d] = taps[d].by, source.window.first[d] = first[d];
        source.window.step[d] = step[d], source.out[d] = out[d];
    }
    source.table = reinterpret_cast<Row*>(memory + Tile::stages * Tile::stage_bytes);
    source.begin = blockIdx.y * range, source.end = source.begin + min(range, pixels - source.begin);
    source.pixel_chunks = pixel_chunks, source.dy_chunks = dy_chunks;
    const int a_chunk = thread % source.a_chunks, b_chunk = thread % source.b_chunks;
    const int at = n0 / Tile::Elem::chunk + b_chunk;
    unsigned chunk, r, s;
    const unsigned t = taps[1].divmod(taps[2].divmod(tap_chunks.divmod(at, chunk), s), r);
    source.delta = tap_offset(source.window, t, r, s, pixel_chunks) + int(chunk);
    source.need = need_of(source.window, t, r, s);
    source.a_row = thread / source.a_chunks, source.b_row = thread / source.b_chunks;
    source.a_to = swizzled(source.a_row, a_chunk, source.a_chunks * CHUNK);
    source.b_to = swizzled(source.b_row, b_chunk, source.b_chunks * CHUNK);
    source.a_inside = m0 + a_chunk * Tile::Elem::chunk < k, source.b_inside = at < chunks;
    source.x = reinterpret_cast<const char*>(x) + i64(group) * tap_chunks.by * CHUNK;
    source.dy = reinterpret_cast<const char*>(dy) +
                (i64(source.begin + source.a_row) * dy_chunks + a_chunk) * CHUNK +
                (i64(group) * k + m0) * Tile::Elem::bytes;
    UNROLL for (int i = 0; i < Tile::stages; ++i) source.ahead(i);
    __syncthreads();

    MmaSums<Tile> d = {};
    __builtin_assume(source.begin < source.end);
    const int steps = ceil_div(source.end - source.begin, Tile::k);
    mma_main<Tile>(d, shared, steps, MnMajorA<Tile>(shared, warp_m, lane),
                      MnMajorB<Tile>(shared, warp_n, lane), source);
    const int cols = chunks * Tile::Elem::chunk;
    UNROLL for (int i = 0; i < Tile::blocks_m; ++i)
        UNROLL for (int low = 0; low < 2; ++low) {
            const int m = m0 + warp_m * Tile::warp_m + i * 16 + low * 8 + lane / 4;
            float* to = sums + (i64(blockIdx.y) * groups * k + group * k + m) * cols;
            UNROLL for (int j = 0; j < Tile::blocks_n * 2; ++j) {
                const int n = n0 + warp_n * Tile::warp_n + j * 8 + lane % 4 * 2;
                const auto* sum = d[i][j / 2][j % 2] + 2 * low;
                if (m < k && n < cols) *reinterpret_cast<float2*>(to + n) = make_float2(sum[0], sum[1]);
            }
        }
}
