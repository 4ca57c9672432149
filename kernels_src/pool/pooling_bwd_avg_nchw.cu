/*@kernel
name    = "pooling_bwd_avg_nchw_{T}"
about   = """dx of average pooling, one or two spatial dims, rows contiguous: \
             a thread makes 16 bytes of a row of dx."""
T       = ["f32", "f16", "bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* dy", "T* dx", "float alpha", "float beta", "int items", "int full", "int h", "int w",
           "int p", "int q", "int window_h", "int window_w", "int pad_h", "int pad_w", "FastDiv stride_h",
           "FastDiv stride_w", "FastDiv vectors", "FastDiv rows", "FastDiv channels",
           "int64_t dy_n", "int64_t dy_c", "int64_t dy_h", "int64_t dx_n", "int64_t dx_c", "int64_t dx_h"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
problems = ["pooling_bwd n2c3h7w16 window=3 pre_pad=1 stride=2 mode=avg_include_padding {T}",
            """pooling_bwd y=2x2x3x16:{T} dy=2x2x3x16:{T}@176,80,24,1 x=2x2x5x48:{T}@592,288,56,1 \
               dx=2x2x5x48:{T}@696,336,64,1 window=3,11 pre_pad=1,4 stride=2,3 mode=avg_exclude_padding""",
            "pooling_bwd n1c3h6w16 window=6,7 pre_pad=2,5 stride=1 mode=avg_include_padding {T}"]
@*/
// Every window that touches the thread's V cells is read once and added to those it covers.
// rows = h, vectors = w / V.
#include "pool.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, T* dx, float alpha, float beta, int items, int full, int h, int w, int p, int q,
    int window_h, int window_w, int pad_h, int pad_w, FastDiv stride_h, FastDiv stride_w, FastDiv vectors,
    FastDiv rows, FastDiv channels, i64 dy_n, i64 dy_c, i64 dy_h, i64 dx_n, i64 dx_c, i64 dx_h) {
    constexpr int V = 16 / int(sizeof(T));
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned vector, row, c;
    const unsigned n = channels.divmod(rows.divmod(vectors.divmod(item, vector), row), c);
    const int w0 = vector * V;
    const Geometry gh = {h, p, window_h, pad_h, stride_h}, gw = {w, q, window_w, pad_w, stride_w};
    const Span over_h = gh.windows(row), over_w = {gw.first_window(w0), gw.windows(w0 + V - 1).last};
    dy += n * dy_n + c * dy_c, dx += n * dx_n + c * dx_c + row * dx_h + w0;

    float sum[V] = {};
    for (int a = over_h.first; a < over_h.last; ++a) {
        const int cells_h = length(gh.cells(a));
        NO_UNROLL for (int b = over_w.first; b < over_w.last; ++b) {
            const int before = w0 - gw.start(b);                    // cells of the window's row before mine
            const float value = to_acc(dy[a * dy_h + b]) / divisor_of(full, cells_h * length(gw.cells(b)));
            UNROLL for (int i = 0; i < V; ++i)
                sum[i] += unsigned(before + i) < unsigned(window_w) ? value : 0.f;
        }
    }
    put(dx, sum, alpha, beta);
}
