/*@kernel
name    = "conv_dgrad_mma_m{tile_m}n{tile_n}_{T}_{Y}"
about   = """dx[ndhw, c] = sum over taps and k of dy @ w on tensor cores, NHWC, any stride, \
             tiles of {tile_m} pixels by {tile_n} channels."""
T       = ["f16", "bf16"]
Y       = ["f16", "bf16", "f32"]                  # what is stored; f32 where a copy to another layout rounds
tile_m  = [128, 64, 256]
tile_n  = [128, 64, 256, 32]
when    = ["tile_m == 128 or tile_n < 256", "(tile_m == 256) == (tile_n == 32)", "Y == T or Y == f32"]
targets = ["sm_80"]
params  = ["const T* dy", "const T* w", "Y* dx", "float alpha", "float beta", "int images", "int rows",
           "int cols", "int k", "int dy_chunks", "int w_chunks", "int w_first", "int channels",
           "FastDiv n_tiles", "FastDiv m_tiles", "Array<FastDiv, 3> stride", "Array<int, 3> wrap",
           "Array<int, 3> up", "Array<FastDiv, 6> out", "Array<int, 3> dx_size", "Array<int, 3> size",
           "Array<int, 3> taps", "Array<int, 3> dilation", "Array<int, 3> w_tap", "int classes", "int groups",
           "Fuse fuse"]
block   = ["256 if tile_n == 256 else 128", 1, 1]
grid    = ["classes * m_tiles * n_tiles", "groups", 1]
smem    = "3 * (tile_m + tile_n) * 128 + 12 * tile_m + 128"
needs   = ["n_tiles == ceil_div(cols, tile_n)", "m_tiles == ceil_div(rows, tile_m)", "rows < 2**31 - 256"]
marks   = ["epilogue"]
problems = ["conv_dgrad n1c40h5w7 k72r2s3 pad1 stride2 {T} {'nchw' if Y == f32 else 'nhwc'}",
            """conv_dgrad n2c21d5h4w6 k16t2r2s2 pre_pad=1,0,2 post_pad=0,1,1 stride=2,1,3 dilation=1,2,1 \
               mode=convolution {T} {'nchw' if Y == f32 else 'nhwc'}""",
            "conv_dgrad n2c272h9w8 k80r2s1 groups=2 {T} {'nchw' if Y == f32 else 'nhwc'}",
            "conv_dgrad n1c8h4w5 k8r1s1 stride2 {T} {'nchw' if Y == f32 else 'nhwc'}"]
@*/
// Input pixel h gets tap r of output p when h + pad = p*stride + r*dilation. So the pixels of one residue h
// mod stride form a class that sees only every stride-th tap: a stride-1 correlation of dy with a part of the
// filter. Per dim, class e = 0 … stride-1 (stride and dilation have no common factor) has the taps
// r = e, e + stride, …; with e*dilation + wrap = q*stride + a its pixels are h = a + stride*i, and tap
// number j reads p = i + (up - q) - j*dilation. wrap = -pad mod stride, up = ceil(pad / stride).
// Classes come with the most taps first, so that the short ones fill the end of the launch; classes without
// taps store zeros.
//
// rows = pixels of the largest class, cols = channels of a group, k = filters of a group. The sum runs over
// chunks (16 bytes) of (t, r, s, k) of a class, k innermost, as in conv_fprop_mma.cu: a thread copies chunk
// `lane` of every k step of dy, and keeps its tap; the filters of that chunk are 8 rows of w, whose place
// the threads that copy them get from it.
// Chunks: dy_chunks in a pixel of dy, w_chunks in a filter. w_tap steps from tap to tap, w_first is tap
// (0, 0, 0).
// out: sizes of a class, three rounded down (at least 1), then three rounded up.
#include "mma_rows.cuh"
#include "tile/mma_narrow.cuh"
#include "conv/mma_store.cuh"

namespace cydnn {
template <class Tile> struct DgradSource {
    using Elem = typename Tile::Elem;
    static constexpr int pass = Tile::threads / CHUNKS, a_rows = Tile::m / pass;
    static constexpr int b_chunks = Tile::n / Elem::chunk, b_pass = Tile::threads / b_chunks;
    static constexpr int b_rows = Tile::k / b_pass;
    static_assert(b_pass % Elem::chunk == 0, "a thread's rows of w are at one place of their chunks");
    const char *dy, *w;                   // the group's; w: this thread's row of a chunk, and channels
    static constexpr bool has_rows = Tile::n == 32;      // in registers; of other tiles these are short
    const Row* row;                       // of this thread's first row, in shared memory
    Row own[has_rows ? a_rows : 1];
    Window window;
    int k, tap_chunks, dy_chunks, w_chunks, k_row, w_tap[3];
    unsigned a_to, b_to;
    bool col_inside;
    int chunk, t, r, s;                          // of the k step to load next, of dy

    DEVICE void begin(int lane) { t = r = s = 0, chunk = lane, whole(); }
    DEVICE void whole() {                        // a chunk behind those of a tap is one of another
        NO_UNROLL while (chunk >= tap_chunks) {
            chunk -= tap_chunks;
            if (++s < window.taps[2]) continue;
            s = 0;
            if (++r < window.taps[1]) continue;
            r = 0, ++t;
        }
    }
    template <bool Near> DEVICE void copy_a(unsigned place, int delta, unsigned need) const {
        UNROLL for (int i = 0; i < a_rows; ++i) {
            const Row at = has_rows ? own[has_rows ? i : 0] : row[i * pass];
            const bool inside = t < window.taps[0] && (at.mask & need) == need;
            cp_async_chunk<Near>(inside, place + i * pass * LINE, dy + i64(at.offset + delta) * CHUNK);
        }
    }
    DEVICE void load_a(int, unsigned stage) const {
        const int delta = tap_offset(window, t, r, s, dy_chunks) + chunk;
        const unsigned need = need_of(window, t, r, s);
        if (has_rows && dy_chunks <= NEAR) copy_a<true>(stage + a_to, delta, need);
        else copy_a<false>(stage + a_to, delta, need);
    }
    DEVICE void load_b(int, unsigned stage) {
        const int filters = t < window.taps[0] ? k - chunk * Elem::chunk : 0;
        const int mine = chunk * Elem::chunk * w_chunks + t * w_tap[0] + r * w_tap[1] + s * w_tap[2];
        UNROLL for (int i = 0; i < b_rows; ++i) {
            const int lane = (k_row + i * b_pass) / Elem::chunk, from = __shfl_sync(~0u, mine, lane);
            const bool load = k_row % Elem::chunk < __shfl_sync(~0u, filters, lane) && col_inside;
            cp_async_if<CHUNK>(load, stage + Tile::a_bytes + b_to + i * b_pass * b_chunks * CHUNK,
                               w + i64(from) * CHUNK);
        }
        chunk += CHUNKS, whole();
    }
    DEVICE void ahead(int) const {}
};
}  // namespace cydnn

using Tile = MmaTile<T, tile_m, tile_n>;

extern "C" __global__ __launch_bounds__(Tile::threads, Tile::resident) void KERNEL(
    const T* dy, const T* w, Y* dx, float alpha, float beta, int images, int rows, int cols, int k,
    int dy_chunks, int w_chunks, int w_first, int channels, FastDiv n_tiles, FastDiv m_tiles,
    Array<FastDiv, 3> stride, Array<int, 3> wrap, Array<int, 3> up, Array<FastDiv, 6> out,
    Array<int, 3> dx_size, Array<int, 3> size, Array<int, 3> taps, Array<int, 3> dilation,
    Array<int, 3> w_tap, int classes, int groups, Fuse fuse) {
    extern __shared__ unsigned char dynamic[];
    unsigned char* memory = dynamic + (-shared_address(dynamic) & 127);
    const unsigned shared = shared_address(memory);
    const int thread = threadIdx.x, lane = thread % 32, group = blockIdx.y;
    const int warp_m = thread / 32 % Tile::warps_m, warp_n = thread / 32 / Tile::warps_m;
    unsigned tile_col, tile_row, e[3];
    const unsigned kind = m_tiles.divmod(n_tiles.divmod(blockIdx.x, tile_col), tile_row);
    e[0] = stride[1].divmod(stride[2].divmod(kind, e[2]), e[1]);
    const int m0 = tile_row * tile_m, n0 = tile_col * tile_n;

    DgradSource<Tile> source;
    FastDiv sizes[3];
    int first_pixel[3], count = images, w_start = w_first;
    UNROLL for (int d = 0; d < 3; ++d) {
        unsigned a;
        const int q = stride[d].divmod(e[d] * dilation[d] + wrap[d], a);
        source.window.size[d] = size[d], source.window.stride[d] = 1, source.window.step[d] = -dilation[d];
        source.window.first[d] = up[d] - q;
        source.window.taps[d] = int(e[d]) < taps[d] ? stride[d].div(taps[d] - 1 - e[d]) + 1 : 0;
        source.w_tap[d] = w_tap[d] * int(stride[d].by), w_start += int(e[d]) * w_tap[d];
        const bool large = a < dx_size[d] - stride[d].div(dx_size[d]) * stride[d].by;
        sizes[d] = large ? out[3 + d] : out[d];
        first_pixel[d] = a, count *= int(a) < dx_size[d] ? sizes[d].by : 0;
    }
    if (m0 >= count) return;
    Row* table = reinterpret_cast<Row*>(memory + Tile::stages * Tile::stage_bytes);
    int* pixels = reinterpret_cast<int*>(table + tile_m);
    NO_UNROLL for (int i = thread; i < tile_m; i += Tile::threads) {
        int at[4];
        pixel_of(m0 + i, sizes, at);
        table[i] = row_of(source.window, at, dy_chunks);
        if (m0 + i >= count) table[i].mask = 0;
        int pixel = at[0];
        UNROLL for (int d = 0; d < 3; ++d)
            pixel = pixel * dx_size[d] + at[d + 1] * int(stride[d].by) + first_pixel[d];
        pixels[i] = m0 + i < count ? pixel : -1;
    }
    __syncthreads();
    const int row = thread / CHUNKS, col_chunk = thread % source.b_chunks;
    constexpr int each = Tile::Elem::chunk;
    source.row = table + row;
    if constexpr (source.has_rows)
        UNROLL for (int i = 0; i < source.a_rows; ++i) source.own[i] = source.row[i * source.pass];
    source.a_to = swizzled(row, thread % CHUNKS, LINE);
    source.k_row = thread / source.b_chunks;
    source.b_to = across_place<source.b_chunks>(source.k_row, col_chunk);
    source.col_inside = n0 + col_chunk * each < cols, source.k = k, source.tap_chunks = ceil_div(k, each);
    source.dy_chunks = dy_chunks, source.w_chunks = w_chunks;
    source.begin(thread % CHUNKS);
    source.dy = reinterpret_cast<const char*>(dy) + i64(group) * k * Tile::Elem::bytes;
    source.w = reinterpret_cast<const char*>(w) +
               (i64(group * k + source.k_row % each) * w_chunks + w_start + n0 / each + col_chunk) * CHUNK;

    MmaSums<Tile> sums = {};
    const int* of_class = source.window.taps;
    const int steps = ceil_div(of_class[0] * of_class[1] * of_class[2] * source.tap_chunks, CHUNKS);
    mma_main<Tile>(sums, shared, steps, KMajorA<Tile>(shared, warp_m, lane),
                      MnMajorB<Tile>(shared, warp_n, lane), source);
    auto* results = reinterpret_cast<Tile::Sum*>(memory);
    spill_sums<Tile>(results, sums, warp_m, warp_n, lane);
    const auto pixel = [&](int i) { return pixels[i]; };
    store_rows<Y, Tile>(results, dx, pixel, group * cols + n0, cols - n0, channels, alpha, beta);
}
