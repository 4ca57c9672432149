/*@kernel
name    = "pooling_bwd_max_nhwc_{T}_{NAN_WINS}_{K}"
about   = """dx of max pooling, channels innermost: a block finds the winners of the windows over its tile \
             of dx, then gathers."""
T       = ["f32", "f16", "bf16"]
NAN_WINS = [0, 1]
K       = [0, 3]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* dy", "T* dx", "float alpha", "float beta", "int channels", "int h",
           "int w", "int p", "int q", "int window_h", "int window_w", "int pad_h", "int pad_w",
           "FastDiv stride_h", "FastDiv stride_w", "int tile_h", "int lanes_log2", "int most_h",
           "FastDiv tile_w", "FastDiv most_w", "FastDiv chunks", "FastDiv tiles_w", "FastDiv tiles_h",
           "int64_t x_n", "int64_t x_h", "int64_t x_w", "int64_t dy_n", "int64_t dy_h", "int64_t dy_w",
           "int64_t dx_n", "int64_t dx_h", "int64_t dx_w"]
block   = [256, 1, 1]
grid    = ["blocks", 1, 1]
extra   = ["blocks"]
smem    = "16 * (most_h * most_w << lanes_log2)"
needs   = ["lanes_log2 <= 3"]
problems = ["""pooling_bwd n2c24h9w7 window={K if K else '2'} pre_pad=1 stride=2 mode=max \
               nan={'propagate' if NAN_WINS else 'ignore'} {T} nhwc""",
            """pooling_bwd n2c{64 // sizeof(T)}h9w20 window={'3' if K else '5,11'} pre_pad=1 stride=1 \
               mode=max nan={'propagate' if NAN_WINS else 'ignore'} {T} nhwc"""]
@*/
// A block: tile_h x tile_w cells of dx, 2^lanes_log2 vectors of 16 bytes of channels. First each window
// that touches the tile (at most most_h x most_w) is walked once and the number of its winning tap
// stored, 16 bytes a vector; then each cell looks at the windows over it and takes the dy of those it won.
// K 3: windows are 3 x 3, all loads in flight; K 0: any.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, T* dx, float alpha, float beta, int channels, int h, int w, int p, int q,
    int window_h, int window_w, int pad_h, int pad_w, FastDiv stride_h, FastDiv stride_w, int tile_h,
    int lanes_log2, int most_h, FastDiv tile_w, FastDiv most_w, FastDiv chunks, FastDiv tiles_w,
    FastDiv tiles_h, i64 x_n, i64 x_h, i64 x_w, i64 dy_n, i64 dy_h, i64 dy_w, i64 dx_n, i64 dx_h, i64 dx_w) {
    constexpr int V = 16 / int(sizeof(T)), Side = K ? K : 1;
    constexpr int Others = K ? 1 : 4;                       // at most 3 windows of 3 touch a cell in a row
    using Values = Vec<T, V>;
    using Code = Vec<typename TapCode<sizeof(T)>::type, V>;
    extern __shared__ uint4 codes[];
    if (K) window_h = window_w = K;
    const Geometry gh = {h, p, window_h, pad_h, stride_h}, gw = {w, q, window_w, pad_w, stride_w};
    unsigned chunk, tile_x, tile_y;
    const unsigned n = tiles_h.divmod(tiles_w.divmod(chunks.divmod(blockIdx.x, chunk), tile_x), tile_y);
    const int lanes = 1 << lanes_log2, lane = threadIdx.x & (lanes - 1),
              c = ((chunk << lanes_log2) + lane) * V;
    const int h0 = tile_y * tile_h, w0 = tile_x * tile_w.by, p0 = gh.first_window(h0),
              q0 = gw.first_window(w0);
    const bool is_mine = c < channels;  // lanes are the same in every round: 256 is a multiple
    x += n * x_n + c, dy += n * dy_n + c, dx += n * dx_n + c;

    for (int i = threadIdx.x >> lanes_log2; i < most_h * int(most_w.by); i += 256 >> lanes_log2) {
        unsigned b, a = most_w.divmod(i, b);
        const int top = gh.start(p0 + a), left = gw.start(q0 + b);
        if (!is_mine) continue;
        // Nobody asks for the winner of a window without cells.
        const Span sh = gh.cells(p0 + a), sw = gw.cells(q0 + b);
        Winner<T, NAN_WINS> winner;
        winner.start((sh.first - top) * window_w + sw.first - left);
        if (K) {
            Values v[Side * Side];
            // A cell outside is clamped to one of the window …
            UNROLL for (int t = 0; t < Side * Side; ++t)
                v[t] = Values::load_nc(x + inside(top + t / Side, h) * x_h
                                         + inside(left + t % Side, w) * x_w);
            // … and counts as that one: equal values do not replace the first.
            UNROLL for (int t = 0; t < Side * Side; ++t) {
                const int r = inside(top + t / Side, h) - top, s = inside(left + t % Side, w) - left;
                winner.add(v[t], r * Side + s);
            }
        } else {
            for (int r = sh.first; r < sh.last; ++r)
                _Pragma("unroll 4") for (int s = sw.first; s < sw.last; ++s)
                    winner.add(Values::load_nc(x + r * x_h + s * x_w), (r - top) * window_w + s - left);
        }
        codes[(i << lanes_log2) + lane] = make_uint4(winner.code[0], winner.code[1],
                                                     winner.code[2], winner.code[3]);
    }
    __syncthreads();
    for (int i = threadIdx.x >> lanes_log2; i < tile_h * int(tile_w.by); i += 256 >> lanes_log2) {
        unsigned column, row = tile_w.divmod(i, column);
        const int at_h = h0 + row, at_w = w0 + column;
        if (!is_mine || at_h >= h || at_w >= w) continue;
        const Span over_h = gh.windows(at_h), over_w = gw.windows(at_w);
        float sum[V] = {};
        for (int a = over_h.first; a < over_h.last; ++a)
            _Pragma("unroll Others") for (int b = over_w.first; b < over_w.last; ++b) {
                const Values v = Values::load_nc(dy + a * dy_h + b * dy_w);
                const uint4 word = codes[(((a - p0) * most_w.by + b - q0) << lanes_log2) + lane];
                const Code code = reinterpret_cast<const Code&>(word);
                const int tap = (at_h - gh.start(a)) * window_w + at_w - gw.start(b);
                UNROLL for (int k = 0; k < V; ++k) sum[k] += code[k] == tap ? to_acc(v[k]) : 0.f;
            }
        put(dx + at_h * dx_h + at_w * dx_w, sum, alpha, beta);
    }
}
