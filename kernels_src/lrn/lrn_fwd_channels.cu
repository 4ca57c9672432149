/*@kernel
name    = "lrn_fwd_channels_{T}_w{W}"
about   = """Local response normalization with channels innermost: a thread makes 16 bytes of channels, \
             windows of at most {W}."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
when    = ["sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "int items", "FastDiv vectors", "int window", "Acc_T scale",
           "Acc_T power", "int quarters", "Acc_T offset", "int dims", "Array<FastDiv,3> digits",
           "Array<int64_t,4> x_strides", "Array<int64_t,4> y_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 512)", 1, 1]
needs   = ["1 <= window <= W"]
problems = ["lrn_fwd n2c{80 // sizeof(T)}h9w15 window={W} scale=2.0 {T} nhwc",
            "lrn_fwd n3c{line(T) // 8}h9w11 window={W - 1} scale=2.0 power=1.5 offset=0.5 {T} nhwc",
            """lrn_fwd x=2x{48 // sizeof(T)}x5x3x4:{T}@9600,1,1920,640,64 \
               y=2x{48 // sizeof(T)}x5x3x4:{T}@12000,1,1600,480,80 window={W - 3} scale=-0.25""",
            "lrn_fwd n2c{line(T) // 8}h9w15 {T} nhwc window={W - 2} scale=2.0 power=0.5",
            """lrn_fwd n2c{line(T) // 8}h9w15 {T} nhwc \
               window={9 if W == 9 else W - 4} scale=2.0 power=1.0""",
            """lrn_fwd n2c{line(T) // 8}h9w15 {T} nhwc \
               window={11 if W == 16 else W} scale=0.0 offset=0.0 power=1.5""",
            """lrn_fwd n2c{line(T) // 8}h9w15 {T} nhwc window={10 if W == 16 else W} scale=1e-310 \
               power={0.9935 if T == f64 else 0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// An item is 16 bytes of channels of one position, `vectors` of them a position. What it needs of its
// neighbours' it loads too: from the L1 cache.
#include "row.cuh"

constexpr int ITEMS = 2, BLOCK = 256;

extern "C" __global__ __launch_bounds__(BLOCK, W == 5 && sizeof(T) == 2 ? 6 : 1) void KERNEL(
    const T* x, T* y, int items, FastDiv vectors, int window, Acc_T scale, Acc_T power, int quarters,
    Acc_T offset, int dims, Array<FastDiv, 3> digits, Array<i64, 4> x_strides, Array<i64, 4> y_strides,
    Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    using Row = RowPart<T, Reach<W>::half>;
    constexpr int HALF = Reach<W>::half, OWN = Row::own;
    const Power<T> of{power, quarters};
    const int channels = vectors.by * OWN;
    Row row[ITEMS];
    i64 at[ITEMS];
    UNROLL for (int k = 0; k < ITEMS; ++k) {
        const unsigned item = blockIdx.x * (BLOCK * ITEMS) + k * BLOCK + threadIdx.x;
        if (item >= items) break;
        unsigned vector;
        i64 found[2];
        locate(found, vectors.divmod(item, vector), digits, dims, x_strides, y_strides);
        row[k].load(x + (found[0] + vector * OWN), vector * OWN, channels);
        at[k] = found[1] + vector * OWN;
    }
    UNROLL for (int k = 0; k < ITEMS; ++k) {
        if (blockIdx.x * (BLOCK * ITEMS) + k * BLOCK + threadIdx.x >= items) break;
        A v[OWN + 2 * HALF], s[OWN];
        row[k].get(v);
        window_sums_of<W, true, true>(s, v, window);
        UNROLL for (int i = 0; i < OWN; ++i) s[i] = offset + scale * s[i];
        of.raise(s);
        UNROLL for (int i = 0; i < OWN; ++i) s[i] *= v[HALF + i];
        blend_into(s, y + at[k], alpha, beta);
        Vec<T, OWN>::of(s).store(y + at[k]);
    }
}
