/*@kernel
name    = "conv_first_wgrad_{T}_{TILE_N}x{TILE_V}"
about   = """Parts of dw[k, taps and channels] = dy[pixels, k]^T @ windows of x of few channels on Hopper's \
             tensor cores: overlapping windows in lines of x in shared memory (wgmma, f32 sums), dy by TMA."""
T       = ["f16", "bf16"]
TILE_N  = [56, 40, 32, 24]
TILE_V  = [5, 4, 3, 2]
when    = ["TILE_N * TILE_V in (224, 200, 72, 64)", "TILE_N != 32 or TILE_V == 2"]
targets = ["sm_90a"]
params  = ["const CUtensorMap dy", "const T* x", "float* parts", "int64_t x_n", "int64_t x_h", "int x_w",
           "int height", "int width", "int channels", "int lanes_log", "int top", "int left", "int stride_h",
           "int stride_w", "int dilation", "int strip", "int places", "int step", "int down", "int k",
           "int rows", "int strips", "int count", "int splits", "Array<int, 2> taps", "int tile_taps",
           "int row_tiles", "int col_tiles", "int ring", "int stages", "int is_flipped"]
block   = [512, 1, 1]
grid    = ["ceil_div(k, 64) * row_tiles * col_tiles * splits", 1, 1]
smem    = """2048 + max(stages * strip * 128 + (ring + (tile_taps - 1) * dilation) * step * places * 16, \
             TILE_N * TILE_V * 512)"""
needs   = ["strip in (112, 64, 32, 16)", "1 <= splits and splits <= count", "step in (1, 2, 4)",
           "1 <= lanes_log and lanes_log <= 3", "channels <= 1 << lanes_log", "2 <= stages and stages <= 8",
           "tile_taps * 8 == TILE_N if down else tile_taps * step <= TILE_V",
           "tile_taps * row_tiles >= taps[0]",
           "places >= strip + (ceil_div(TILE_V, step) if down else TILE_N // 8) - 1",
           "col_tiles * (TILE_V * 8 if down else TILE_N * step) >= taps[1] << lanes_log",
           "ring >= (tile_taps - 1) * dilation + 1", "stride_w << lanes_log == 8 * step",
           "ceil_div(k, 64) * row_tiles * col_tiles * splits < 2147483648"]
problems = ["conv_wgrad n1c3h7w200 k72r{TILE_N // 8}s3 pad3 stride=1,2 {T} nhwc",
            "conv_wgrad n1c2h9w100 k8r{TILE_N // 8}s4 stride=1,4 {T} nhwc",
            "conv_wgrad n1c3h5w100 k8r{TILE_N // 8}s7 pad3 stride=6,2 {T} nhwc",
            """conv_wgrad x=3x5x9x7:{T}@650,1,65,9 dy=3x8x6x2:{T}@160,1,24,8 dw=8x5x4x3:{T}@67,1,15,5 \
               stride=1,4 pre_pad=0,2 post_pad=0,1 mode=convolution""",
            "conv_wgrad n2c2w100 k9s12 stride=4 {T} nhwc dy=2x9x23:{T}@368,1,16"]
@*/
// dw as `splits` parts for conv_wgrad_mma_sum, each [k][r][s][lanes], but of at least 4 lanes. m are 64
// filters, the depth the pixels of a strip of a row of dy. A block has one tile of filters, of filter rows
// and of chunks of a window (first.cuh), and goes through its share of all `count` = images * strips * rows.
// Its sums stay in registers: TILE_V products, each with TILE_N elements of windows as n, eights of them
//   down    from as many filter rows, tile_taps of them, all in the v-th chunk; or
//   else    from neighbouring places of a line, in the (v / step)-th filter row and the (v % step)-th part.
// So dy is read once for the tile. Lines that follow each other in the image do so in the ring, whose first
// `span - 1` places are there again behind its end. Warpgroups take strips in turn; in the end their sums are
// added. Behind a row's last pixel dy is 0, and x is what is there: where it is infinite, taps beside its own
// become NaN.
#include "first.cuh"
#include "tile/wgmma_held.cuh"

namespace cydnn {
constexpr int LOADERS = 7, READERS = 8;          // warps that bring lines; that read them

DEVICE void readers_barrier() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// d[v] += `Steps` times MmaElem::k pixels of dy at `from` @ their windows[v]: a line and 16 bytes each.
template <class Elem, int Steps, int Count, int Sums>
DEVICE void first_product(float (&d)[Count][Sums], unsigned from, const uint64_t (&windows)[Count]) {
    unsigned a[Steps][4];
    UNROLL for (int j = 0; j < Steps; ++j) ldmatrix_x4_trans(a[j], from + j * MmaElem<Elem>::k * LINE);
    UNROLL for (int v = 0; v < Count; ++v) sums_change(d[v]);
    wgmma_fence();
    UNROLL for (int j = 0; j < Steps; ++j)
        UNROLL for (int v = 0; v < Count; ++v)
            WgmmaHeld<Elem, 2 * Sums>::template add<1>(d[v], a[j], windows[v] + j * MmaElem<Elem>::k);
    wgmma_commit();
    wgmma_wait<0>();
    UNROLL for (int v = 0; v < Count; ++v) sums_change(d[v]);
}

// An image whose lines are brought two elements at a time: no window ends inside a chunk for it, as what is
// behind the last tap goes to sums that nobody wants.
struct FirstPairs {
    const unsigned short* x;
    i64 x_n, x_h;
    int x_w, height, width, channels, lanes_log, stride_h, stride_w, top, left, strip, step_log, places;
    unsigned char* again_below;                  // a line that begins below it is written twice
    int again_at;                                // bytes from there

    DEVICE int line_bytes() const { return places * 16 << step_log; }
    template <class Ready> DEVICE void fill(unsigned char* line, int n, int h, int at, Ready ready) const {
        constexpr int BATCH = 8;             // pairs of a thread on their way
        const int lane = threadIdx.x % 32, c = 2 * lane & (1 << lanes_log) - 1, by = 64 >> lanes_log;
        const bool again = line < again_below;
        const int chunk = lane / 4, pairs = places * 4 << step_log;
        int pixel = at * strip * stride_w - left + (2 * lane >> lanes_log);
        const bool inside = unsigned(h) < unsigned(height), has = inside && c < channels;
        const bool has_two = inside && c + 1 < channels;
        const unsigned short* from = x + n * x_n + h * x_h + i64(pixel) * x_w + c;
        const i64 from_by = i64(by) * x_w;
        unsigned char* to = line + (chunk & (1 << step_log) - 1) * places * 16 + (chunk >> step_log) * 16
                          + lane % 4 * 4;
        NO_UNROLL for (int e = lane; e < pairs; e += 32 * BATCH) {
            unsigned low[BATCH], high[BATCH];
            UNROLL for (int b = 0; b < BATCH; ++b, pixel += by, from += from_by) {
                const bool is = unsigned(pixel) < unsigned(width) && e + 32 * b < pairs;
                low[b] = is && has ? __ldg(from) : 0, high[b] = is && has_two ? __ldg(from + 1) : 0;
            }
            if (e == lane) ready();
            UNROLL for (int b = 0; b < BATCH; ++b, to += 128 >> step_log) {
                if (e + 32 * b >= pairs) continue;
                low[b] |= high[b] << 16;
                *reinterpret_cast<unsigned*>(to) = low[b];
                if (again) *reinterpret_cast<unsigned*>(to + again_at) = low[b];
            }
        }
    }
};

// Where the sums of a block's tile go.
struct FirstFilters {
    float* parts;
    int k, r, s, lanes_log, step_log, down, is_flipped;
    int filter, first_r, first_chunk;            // of the tile
    // Two neighbours from element 8 g + n on, of filter `m` and product `v` of the tile.
    DEVICE void put(int m, int v, int g, int n, float a, float b) const {
        const int u = v >> step_log, chunk = first_chunk + ((down ? u : g) << step_log) + v - (u << step_log);
        const int e = chunk * 8 + n, lanes = max(1 << lanes_log, 4);
        int tap = e >> lanes_log, row = first_r + (down ? g : u);
        if (filter + m >= k || row >= r || tap >= s) return;
        if (is_flipped) tap = s - 1 - tap, row = r - 1 - row;
        float* to = parts + ((i64(filter + m) * r + row) * s + tap) * lanes + (e & (1 << lanes_log) - 1);
        *reinterpret_cast<float2*>(to) = {a, b};
        if (lanes_log == 1) *reinterpret_cast<float2*>(to + 2) = {};
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const __grid_constant__ CUtensorMap dy, const T* x, float* parts, i64 x_n, i64 x_h, int x_w, int height,
    int width, int channels, int lanes_log, int top, int left, int stride_h, int stride_w, int dilation,
    int strip, int places, int step, int down, int k, int rows, int strips, int count, int splits,
    Array<int, 2> taps, int tile_taps, int row_tiles, int col_tiles, int ring, int stages, int is_flipped) {
    extern __shared__ unsigned char shared[];
    unsigned char* base = shared + (-shared_address(shared) & 1023);
    uint64_t *full = reinterpret_cast<uint64_t*>(base), *arrived = full + 2 * ROW_EVENTS;
    const int step_log = __ffs(step) - 1, stage_bytes = strip * LINE, line_bytes = places * step * 16;
    unsigned char *gradients = base + 1024, *lines = gradients + stages * stage_bytes;
    const FirstRing events = {lines, full, full + ROW_EVENTS};
    if (threadIdx.x == 0) {
        NO_UNROLL for (int i = 0; i < stages; ++i) barrier_init(arrived + i, 1);
        events.begin(READERS, LOADERS);
        tensor_ahead(dy);
    }
    __syncthreads();

    const unsigned split = blockIdx.x % splits;
    unsigned tile = blockIdx.x / splits;
    const int tile_chunk = tile % col_tiles * (down ? TILE_V : TILE_N / 8 * step);
    tile /= col_tiles;
    const int tile_row = tile % row_tiles * tile_taps, tile_k = tile / row_tiles * 64;
    const int span = (tile_taps - 1) * dilation + 1;
    const unsigned first = i64(count) * split / splits;
    const int own_rows = int(i64(count) * (split + 1) / splits - first);
    FirstWalk walk(rows, strips, span, stride_h, ring, first);
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = threadIdx.x / 32;

    if (role >= 2) {
        registers_give<88>();
        if (warp < 8 + LOADERS) {
            const FirstPairs image = {
                first_lanes(x), x_n, x_h, x_w, height, width, channels, lanes_log,
                stride_h, stride_w, top - tile_row * dilation, left - (tile_chunk * 8 >> lanes_log), strip,
                step_log, places, lines + (span - 1) * line_bytes, ring * line_bytes};
            first_fill<LOADERS>(image, events, walk, own_rows, warp - 8);
        } else if (threadIdx.x % 32 == 0) {
            int stage = 0;
            NO_UNROLL for (int i = 0; i < own_rows; ++i, walk.next()) {
                if (i >= stages) events.wait_empty(i - stages);
                barrier_expect(arrived + stage, stage_bytes);
                tensor_load(gradients + stage * stage_bytes, dy,
                            {tile_k, walk.strip * strip, walk.p, walk.n, 0}, arrived + stage);
                if (++stage == stages) stage = 0;
            }
        }
        return;
    }
    registers_take<168>();
    const int lane = threadIdx.x % 32, sixteens = strip / MmaElem<T>::k;
    // Lane l of a warp reads pixel 8 (l / 16) + l % 8 of 16, and its own 16 filters' (l / 8 % 2)-th half.
    const unsigned own = (lane / 16 * 8 + lane % 8) * LINE + ((warp % 4 * 2 + lane / 8 % 2 ^ lane % 8) << 4);
    float d[TILE_V][TILE_N / 2];
    unsigned from_line[TILE_V];
    UNROLL for (int v = 0; v < TILE_V; ++v) {
        UNROLL for (int i = 0; i < TILE_N / 2; ++i) d[v][i] = 0.f;
        const int u = v >> step_log, part = v - (u << step_log);
        from_line[v] = part * places + u * (down ? 1 : dilation * line_bytes / 16);
        if (!down && u >= tile_taps) from_line[v] = 0;       // sums that nobody wants
    }
    if (role == 1 && lane == 0) barrier_arrive(events.empty);        // it reads nothing of the first strip
    int stage = 0;
    unsigned phase = 0;
    NO_UNROLL for (int i = 0; i < own_rows; ++i, walk.next()) {
        if ((i & 1) == role) {
            uint64_t windows[TILE_V];
            const uint64_t line = plain_panel(shared_address(lines) + walk.at * line_bytes, 128,
                                              down ? dilation * line_bytes : 16);
            UNROLL for (int v = 0; v < TILE_V; ++v) windows[v] = line + from_line[v];
            const unsigned from = shared_address(gradients) + stage * stage_bytes + own;
            barrier_wait(arrived + stage, phase);
            events.wait_full(i);
            if (sixteens == 7) first_product<T, 7>(d, from, windows);
            else if (sixteens == 4) first_product<T, 4>(d, from, windows);
            else if (sixteens == 2) first_product<T, 2>(d, from, windows);
            else first_product<T, 1>(d, from, windows);
            if (lane == 0) {                                 // nor does it read anything of the next strip
                barrier_arrive(events.empty + events.at(i));
                barrier_arrive(events.empty + events.at(i + 1));
            }
        }
        if (++stage == stages) stage = 0, phase ^= 1;
    }

    constexpr int EACH = TILE_N / 2;
    float* sums = reinterpret_cast<float*>(base + 1024) + threadIdx.x % 128;     // [group][v][i][thread]
    readers_barrier();                                       // both have read all stages and lines
    UNROLL for (int v = 0; v < TILE_V; ++v)
        UNROLL for (int i = 0; i < EACH; ++i) sums[((role * TILE_V + v) * EACH + i) * 128] = d[v][i];
    readers_barrier();
    parts += i64(split) * k * taps[0] * taps[1] * max(1 << lanes_log, 4);
    const FirstFilters to = {parts, k, taps[0], taps[1], lanes_log, step_log, down, is_flipped,
                             tile_k, tile_row, tile_chunk};
    const int m = warp % 4 * 16 + lane / 4 + role * 8;       // half of the filters each
    NO_UNROLL for (int v = 0; v < (down ? TILE_V : tile_taps << step_log); ++v)
        _Pragma("unroll 2") for (int g = 0; g < TILE_N / 8; ++g) {
            const float *a = sums + (v * EACH + 4 * g + 2 * role) * 128, *b = a + TILE_V * EACH * 128;
            to.put(m, v, g, lane % 4 * 2, a[0] + b[0], a[128] + b[128]);
        }
}
