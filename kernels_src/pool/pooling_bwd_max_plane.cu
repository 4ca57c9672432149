/*@kernel
name    = "pooling_bwd_max_plane_{T}_{NAN_WINS}_{K}"
about   = """dx of max pooling, one or two spatial dims, any strides, lanes along w: \
             winners of the windows over a tile, then a gather."""
T       = ["f64", "f32", "f16", "bf16"]
NAN_WINS = [0, 1]
K       = [0, 3]
params  = ["const T* x", "const T* dy", "T* dx", "Acc_T alpha", "Acc_T beta", "int planes", "int h", "int w",
           "int p", "int q", "int window_h", "int window_w", "int pad_h", "int pad_w", "FastDiv stride_h",
           "FastDiv stride_w", "int group", "FastDiv tile_h", "FastDiv tile_w", "FastDiv most_h",
           "FastDiv most_w", "FastDiv tiles_w", "FastDiv tiles_h", "FastDiv channels",
           "Array<int64_t,4> x_strides", "Array<int64_t,4> dy_strides", "Array<int64_t,4> dx_strides"]
block   = [256, 1, 1]
grid    = ["ceil_div(planes, group) * tiles_w * tiles_h", 1, 1]
smem    = "2 * group * most_h * most_w"
problems = ["""pooling_bwd n2c3h9w7 window={K if K else '2'} pre_pad=1 stride=2 mode=max \
               nan={'propagate' if NAN_WINS else 'ignore'} {T}""",
            """pooling_bwd n2c3h9w20 window={'3' if K else '5,11'} pre_pad=1 stride=1 mode=max \
               nan={'propagate' if NAN_WINS else 'ignore'} {T}"""]
@*/
// A block: tile_h x tile_w cells of dx in each of `group` planes (image and channel). First each window that
// touches the tile is walked once and the number of its winning tap stored; then each cell takes the dy of
// the windows that it won. Strides are w h c n. K 3: windows are 3 x 3, all loads in flight (cells outside
// are clamped to ones of the window).
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, T* dx, acc_t<T> alpha, acc_t<T> beta, int planes, int h, int w, int p, int q,
    int window_h, int window_w, int pad_h, int pad_w, FastDiv stride_h, FastDiv stride_w, int group,
    FastDiv tile_h, FastDiv tile_w, FastDiv most_h, FastDiv most_w, FastDiv tiles_w, FastDiv tiles_h,
    FastDiv channels, Array<i64, 4> x_strides, Array<i64, 4> dy_strides, Array<i64, 4> dx_strides) {
    using A = acc_t<T>;
    constexpr bool Nan = NAN_WINS;
    constexpr int Side = K ? K : 1, nobody = 0xffff;
    constexpr int Others = K ? 1 : 4;                       // at most 3 windows of 3 touch a cell in a row
    extern __shared__ unsigned short codes[];
    if (K) window_h = window_w = K;
    const Geometry gh = {h, p, window_h, pad_h, stride_h}, gw = {w, q, window_w, pad_w, stride_w};
    unsigned tile_x, tile_y;
    const int plane0 = tiles_h.divmod(tiles_w.divmod(blockIdx.x, tile_x), tile_y) * group;
    const int h0 = tile_y * tile_h.by, w0 = tile_x * tile_w.by, p0 = gh.first_window(h0),
              q0 = gw.first_window(w0);

    for (int i = threadIdx.x; i < group * int(most_h.by * most_w.by); i += 256) {
        unsigned a, b, c;
        const int plane = plane0 + most_h.divmod(most_w.divmod(i, b), a);
        if (plane >= planes) continue;  // nobody asks for the winner of a window that is none or has no cells
        const int top = gh.start(p0 + a), left = gw.start(q0 + b);
        const Span sh = gh.cells(p0 + a), sw = gw.cells(q0 + b);
        const unsigned n = channels.divmod(plane, c);
        const T* cells = x + n * x_strides[3] + c * x_strides[2];
        int code = nobody;
        A best = Nan ? A(-INFINITY) : A(NAN);
        const auto add = [&](A now, int tap) {
            const bool takes = Nan ? best == best && (code == nobody || !(now <= best))
                                   : now == now && !(now <= best);
            best = takes ? now : best, code = takes ? tap : code;
        };
        if (K) {
            T v[Side * Side];
            UNROLL for (int t = 0; t < Side * Side; ++t)
                v[t] = cells[inside(top + t / Side, h) * x_strides[1]
                             + inside(left + t % Side, w) * x_strides[0]];
            UNROLL for (int t = 0; t < Side * Side; ++t)
                add(to_acc(v[t]),
                    (inside(top + t / Side, h) - top) * Side + inside(left + t % Side, w) - left);
        } else {
            for (int r = sh.first; r < sh.last; ++r)
                _Pragma("unroll 4") for (int s = sw.first; s < sw.last; ++s)
                    add(to_acc(cells[r * x_strides[1] + s * x_strides[0]]), (r - top) * window_w + s - left);
        }
        codes[i] = code;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < group * int(tile_h.by * tile_w.by); i += 256) {
        unsigned row, column, c;
        const int slot = tile_h.divmod(tile_w.divmod(i, column), row), plane = plane0 + slot;
        const int at_h = h0 + row, at_w = w0 + column;
        if (plane >= planes || at_h >= h || at_w >= w) continue;
        const unsigned n = channels.divmod(plane, c);
        const T* from = dy + n * dy_strides[3] + c * dy_strides[2];
        const Span over_h = gh.windows(at_h), over_w = gw.windows(at_w);
        A sum[1] = {};
        for (int a = over_h.first; a < over_h.last; ++a)
            _Pragma("unroll Others") for (int b = over_w.first; b < over_w.last; ++b) {
                const int code = codes[(slot * most_h.by + a - p0) * most_w.by + b - q0];
                if (code == (at_h - gh.start(a)) * window_w + at_w - gw.start(b))
                    sum[0] += to_acc(from[a * dy_strides[1] + b * dy_strides[0]]);
            }
        put(dx + n * dx_strides[3] + c * dx_strides[2] + at_h * dx_strides[1] + at_w * dx_strides[0],
            sum, alpha, beta);
    }
}
