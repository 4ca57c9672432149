/*@kernel
name    = "divisive_norm_fwd_planes_{T}_w{W}_v{VEC}"
about   = """Divisive normalization without means of planes with w innermost: a thread \
             walks down {VEC} columns, lanes meet for the sums along w; windows of at most {W} cells a \
             side."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2, 4]
when    = ["VEC * sizeof(T) <= 16", "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "int items", "int lanes_log2", "int width", "int height", "int per",
           "int is_near", "int lead", "int useful", "FastDiv segments", "FastDiv chunks",
           "FastDiv channels", "int window", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset",
           "Array<int64_t,3> x_strides", "Array<int64_t,3> y_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(items << lanes_log2, 128)", 1, 1]
needs   = ["1 <= window <= W", "1 <= lanes_log2 <= 5", "per % 8 == 0", "width % VEC == 0"]
problems = ["divisive_norm_fwd x=2x3x19x{12 * VEC}:{T} window={W} scale=2.0 offset=0.5",
            "divisive_norm_fwd x=1x2x70x{45 * VEC}:{T} window={W - 1} scale=2.0 power=1.5",
            """divisive_norm_fwd x=2x3x5x{VEC}:{T}@{400 * VEC},{100 * VEC},{12 * VEC},1 \
               y=2x3x5x{VEC}:{T}@{360 * VEC},{100 * VEC},{16 * VEC},1 window={W - 3} scale=-0.25""",
            "divisive_norm_fwd x=1x2x9x{3 * VEC}:{T} window={W} scale=2.0 power=0.5",
            "divisive_norm_fwd x=1x2x9x{3 * VEC}:{T} window={W} scale=2.0 power=1.0",
            "divisive_norm_fwd x=1x2x9x{3 * VEC}:{T} window={W} scale=0.0 offset=0.0 power=1.5",
            """divisive_norm_fwd x=1x2x9x{3 * VEC}:{T} window={W} scale=1e-310 \
               power={0.9935 if T == f64 else 0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// Strides are h c n. held: x of rows h - half … h + STRIP + half.
#include "planes.cuh"

constexpr int STRIP = W > 9 ? 4 : 8, HALF = Reach<W>::half;
constexpr int BLOCKS = W > 5 || sizeof(T) > 4 ? 1 : VEC == 4 ? 5 : 8;     // of an SM

extern "C" __global__ __launch_bounds__(128, BLOCKS) void KERNEL(
    const T* x, T* y, int items, int lanes_log2, int width, int height, int per, int is_near, int lead,
    int useful, FastDiv segments, FastDiv chunks, FastDiv channels, int window, Acc_T scale, Acc_T power,
    int quarters, Acc_T offset, Array<i64, 3> x_strides, Array<i64, 3> y_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    const Site<VEC> site(lanes_log2, items, width, per, lead, useful, segments, chunks, channels);
    x += site.n * x_strides[2] + site.c * x_strides[1] + site.column;
    y += site.n * y_strides[2] + site.c * y_strides[1] + site.column + site.first * y_strides[0];
    const int last = min(height, site.first + per);
    const Power<T> of{power, quarters};

    A held[VEC][STRIP + 2 * HALF];
    UNROLL for (int i = 0; i < 2 * HALF; ++i) {
        const auto v = site.row_of(x, x_strides[0], site.first - HALF + i, height);
        UNROLL for (int j = 0; j < VEC; ++j) held[j][i] = site.value(v[j]);
    }
    NO_UNROLL for (int k = 0; k < per; k += STRIP, y += STRIP * y_strides[0]) {
        const int h = site.first + k;
        Vec<T, VEC> next[STRIP];
        const bool is_whole = is_near && h + HALF + STRIP <= height && h + STRIP <= last;
        site.rows_of(next, x, x_strides[0], h + HALF, height, is_whole);
        A sum[STRIP][VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            A q[STRIP + 2 * HALF], s[STRIP];
            UNROLL for (int i = 0; i < STRIP; ++i) held[j][2 * HALF + i] = site.value(next[i][j]);
            UNROLL for (int i = 0; i < STRIP + 2 * HALF; ++i) q[i] = held[j][i] * held[j][i];
            window_sums<W, true>(s, q, window);
            UNROLL for (int i = 0; i < STRIP; ++i) sum[i][j] = s[i];
        }
        UNROLL for (int i = 0; i < STRIP; ++i) {
            A row[VEC + 2 * HALF];
            site.template meet<HALF>(row, sum[i]);
            window_sums<W, true>(sum[i], row, window);
            UNROLL for (int j = 0; j < VEC; ++j) sum[i][j] = offset + scale * sum[i][j];
            of.raise(sum[i]);
            UNROLL for (int j = 0; j < VEC; ++j) sum[i][j] *= held[j][HALF + i];
        }
        if (site.is_useful) put_channels<T>(y, y_strides[0], sum, is_whole, last - h, alpha, beta);
        UNROLL for (int j = 0; j < VEC; ++j)
            UNROLL for (int i = 0; i < 2 * HALF; ++i) held[j][i] = held[j][i + STRIP];
    }
}
