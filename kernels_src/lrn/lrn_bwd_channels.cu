/*@kernel
name    = "lrn_bwd_channels_{T}_w{W}"
about   = """Gradient of local response normalization with channels innermost: a thread makes 16 bytes of \
             channels, windows of at most {W}."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
when    = ["sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* dy", "T* dx", "int items", "FastDiv vectors", "int window",
           "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset", "Acc_T slope", "Acc_T lift",
           "int dims", "Array<FastDiv,3> digits", "Array<int64_t,4> x_strides",
           "Array<int64_t,4> dy_strides", "Array<int64_t,4> dx_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(items, 128)", 1, 1]
needs   = ["1 <= window <= W"]
problems = ["lrn_bwd n2c{80 // sizeof(T)}h9w15 window={W} scale=2.0 {T} nhwc",
            "lrn_bwd n3c{line(T) // 8}h3w5 window={W - 1} scale=2.0 power=1.5 offset=0.5 {T} nhwc",
            """lrn_bwd x=2x{48 // sizeof(T)}x3x2x4:{T}@9600,1,1280,640,64 \
               dy=2x{48 // sizeof(T)}x3x2x4:{T}@6400,1,960,480,80 \
               dx=2x{48 // sizeof(T)}x3x2x4:{T}@12000,1,1600,480,80 window={W - 3} scale=-0.25""",
            "lrn_bwd n1c{32 // sizeof(T)}h2w5 {T} nhwc window={W - 2} scale=2.0 power=0.5",
            "lrn_bwd n1c{32 // sizeof(T)}h2w5 {T} nhwc window={9 if W == 9 else W - 4} scale=2.0 power=1.0",
            """lrn_bwd n1c{32 // sizeof(T)}h2w5 {T} nhwc \
               window={11 if W == 16 else W} scale=0.0 offset=0.0 power=1.5""",
            """lrn_bwd n1c{32 // sizeof(T)}h2w5 {T} nhwc window={10 if W == 16 else W} scale=1e-310 \
               power={-0.999 if T == f64 else -0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// Items as in lrn_fwd_channels. The powers of the neighbours' sums are made again by every item that needs
// them.
#include "row.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, const T* dy, T* dx, int items, FastDiv vectors, int window, Acc_T scale, Acc_T power,
    int quarters, Acc_T offset, Acc_T slope, Acc_T lift, int dims, Array<FastDiv, 3> digits,
    Array<i64, 4> x_strides, Array<i64, 4> dy_strides, Array<i64, 4> dx_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    constexpr int HALF = Reach<W>::half;
    using Wide = RowPart<T, 2 * HALF>;
    using Near = RowPart<T, HALF>;
    constexpr int OWN = Near::own, COUNT = OWN + 2 * HALF;
    const unsigned item = blockIdx.x * 128 + threadIdx.x;
    if (item >= items) return;
    unsigned vector;
    i64 at[3];
    locate(at, vectors.divmod(item, vector), digits, dims, x_strides, dy_strides, dx_strides);
    const int c = vector * OWN, channels = vectors.by * OWN;
    Wide x_row;
    Near dy_row;
    x_row.load(x + (at[0] + c), c, channels);
    dy_row.load(dy + (at[1] + c), c, channels);
    dx += at[2] + c;

    A v[COUNT + 2 * HALF], d[COUNT], s[COUNT], t[COUNT];
    x_row.get(v), dy_row.get(d);
    window_sums_of<W, true, true>(s, v, window);
    UNROLL for (int i = 0; i < COUNT; ++i) s[i] = offset + scale * s[i];
    gradient_terms(Power<T>{power, quarters}, s, t, d, [&](int i) { return v[HALF + i]; }, lift);
    UNROLL for (int i = 0; i < COUNT; ++i)                          // beyond the ends t may be infinite
        if ((i < HALF || i >= HALF + OWN) && unsigned(c - HALF + i) >= unsigned(channels)) t[i] = 0;
    A sum[OWN];
    window_sums_of<W, false, false>(sum, t, window);
    UNROLL for (int i = 0; i < OWN; ++i)
        sum[i] = s[HALF + i] - slope * (v[2 * HALF + i] * sum[i]);
    blend_into(sum, dx, alpha, beta);
    Vec<T, OWN>::of(sum).store(dx);
}
