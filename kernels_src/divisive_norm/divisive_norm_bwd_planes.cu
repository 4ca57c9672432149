/*@kernel
name    = "divisive_norm_bwd_planes_{T}_w{W}_v{VEC}"
about   = """Gradient of divisive normalization without means of planes with w innermost: a thread \
             walks down {VEC} columns, lanes meet for the sums along w; windows of at most {W} cells a \
             side."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2]
when    = ["sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* dy", "T* dx", "int items", "int lanes_log2", "int width", "int height",
           "int per", "int is_near", "int lead", "int useful", "FastDiv segments", "FastDiv chunks",
           "FastDiv channels", "int window", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset",
           "Acc_T slope", "Array<int64_t,3> x_strides", "Array<int64_t,3> dy_strides",
           "Array<int64_t,3> dx_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(items << lanes_log2, 128)", 1, 1]
needs   = ["1 <= window <= W", "1 <= lanes_log2 <= 5", "per % 8 == 0", "width % VEC == 0"]
problems = ["""divisive_norm_bwd x=2x3x19x{12 * VEC}:{T} dy=2x3x19x{12 * VEC}:{T} dmeans=none window={W} \
               scale=2.0 offset=0.5""",
            """divisive_norm_bwd x=1x2x70x{45 * VEC}:{T} dy=1x2x70x{45 * VEC}:{T} dmeans=none \
               window={W - 1 if W < 16 else 11} scale=2.0 power=1.5""",
            """divisive_norm_bwd x=2x3x5x{VEC}:{T}@{400 * VEC},{100 * VEC},{12 * VEC},1 \
               dy=2x3x5x{VEC}:{T}@{480 * VEC},{100 * VEC},{20 * VEC},1 \
               dx=2x3x5x{VEC}:{T}@{360 * VEC},{100 * VEC},{16 * VEC},1 dmeans=none window={W - 3} \
               scale=-0.25""",
            """divisive_norm_bwd x=1x2x9x{3 * VEC}:{T} dy=1x2x9x{3 * VEC}:{T} dmeans=none window={W} \
               scale=2.0 power=0.5""",
            """divisive_norm_bwd x=1x2x9x{3 * VEC}:{T} dy=1x2x9x{3 * VEC}:{T} dmeans=none window={W} \
               scale=2.0 power=1.0""",
            """divisive_norm_bwd x=1x2x9x{3 * VEC}:{T} dy=1x2x9x{3 * VEC}:{T} dmeans=none window={W} \
               scale=0.0 offset=0.0 power=1.5""",
            """divisive_norm_bwd x=1x2x9x{3 * VEC}:{T} dy=1x2x9x{3 * VEC}:{T} dmeans=none window={W} \
               scale=1e-310 power={-0.999 if T == f64 else -0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// Strides are h c n. At row h a thread holds, of its columns,
//   xs   x                           of h        … h + 2 * HALF + STRIP
//   own  dy * s^-power               of h        … h + HALF + STRIP
//   t    dy * x * s^-(power+1)       of h - HALF … h + HALF + STRIP
// and makes dx of h … h + STRIP. All begin as 0 some strips before the first row.
#include "planes.cuh"

constexpr int STRIP = W > 5 ? 4 : 8, HALF = Reach<W>::half, LEAD = (2 * HALF + STRIP - 1) / STRIP * STRIP;
constexpr int BLOCKS = W > 5 || sizeof(T) > 4 ? 1 : VEC == 2 ? 5 : 6;     // of an SM

extern "C" __global__ __launch_bounds__(128, BLOCKS) void KERNEL(
    const T* x, const T* dy, T* dx, int items, int lanes_log2, int width, int height, int per,
    int is_near, int lead, int useful, FastDiv segments, FastDiv chunks, FastDiv channels, int window,
    Acc_T scale, Acc_T power, int quarters, Acc_T offset, Acc_T slope, Array<i64, 3> x_strides,
    Array<i64, 3> dy_strides, Array<i64, 3> dx_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    const Site<VEC> site(lanes_log2, items, width, per, lead, useful, segments, chunks, channels);
    x += site.n * x_strides[2] + site.c * x_strides[1] + site.column;
    dy += site.n * dy_strides[2] + site.c * dy_strides[1] + site.column;
    dx += site.n * dx_strides[2] + site.c * dx_strides[1] + site.column;
    const int first = site.first, last = min(height, first + per);
    const Power<T> of{power, quarters};

    A xs[VEC][STRIP + 2 * HALF], own[VEC][STRIP + HALF], t[VEC][STRIP + 2 * HALF];
    UNROLL for (int i = 0; i < 2 * HALF; ++i) {
        const auto v = site.row_of(x, x_strides[0], first - LEAD + i, height);
        UNROLL for (int j = 0; j < VEC; ++j) xs[j][i] = site.value(v[j]), t[j][i] = 0;
    }
    UNROLL for (int j = 0; j < VEC; ++j) UNROLL for (int i = 0; i < HALF; ++i) own[j][i] = 0;
    NO_UNROLL for (int k = -LEAD; k < per; k += STRIP) {
        const int h = first + k;
        Vec<T, VEC> new_x[STRIP], new_dy[STRIP];
        const bool is_whole = is_near && k >= 0 && h + 2 * HALF + STRIP <= height && h + STRIP <= last;
        site.rows_of(new_x, x, x_strides[0], h + 2 * HALF, height, is_whole);
        site.rows_of(new_dy, dy, dy_strides[0], h + HALF, height, is_whole);
        A sum[STRIP][VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            A q[STRIP + 2 * HALF], s[STRIP];
            UNROLL for (int i = 0; i < STRIP; ++i) xs[j][2 * HALF + i] = site.value(new_x[i][j]);
            UNROLL for (int i = 0; i < STRIP + 2 * HALF; ++i) q[i] = xs[j][i] * xs[j][i];
            window_sums<W, true>(s, q, window);
            UNROLL for (int i = 0; i < STRIP; ++i) sum[i][j] = s[i];
        }
        UNROLL for (int i = 0; i < STRIP; ++i) {
            A row[VEC + 2 * HALF], below[VEC];
            site.template meet<HALF>(row, sum[i]);
            window_sums<W, true>(sum[i], row, window);
            UNROLL for (int j = 0; j < VEC; ++j) sum[i][j] = offset + scale * sum[i][j];
            of.raise(sum[i], below);
            const bool is_inside = site.is_there && unsigned(h + HALF + i) < unsigned(height);
            UNROLL for (int j = 0; j < VEC; ++j) {
                const A d = to_acc(new_dy[i][j]);
                own[j][HALF + i] = d * sum[i][j];
                t[j][2 * HALF + i] = is_inside ? d * xs[j][HALF + i] * below[j] : A(0);
            }
        }
        UNROLL for (int j = 0; j < VEC; ++j) {
            A s[STRIP];
            window_sums<W, false>(s, t[j], window);
            UNROLL for (int i = 0; i < STRIP; ++i) sum[i][j] = s[i];
        }
        UNROLL for (int i = 0; i < STRIP; ++i) {
            A row[VEC + 2 * HALF];
            site.template meet<HALF>(row, sum[i]);
            window_sums<W, false>(sum[i], row, window);
            UNROLL for (int j = 0; j < VEC; ++j) sum[i][j] = own[j][i] - slope * xs[j][i] * sum[i][j];
        }
        if (site.is_useful && k >= 0)
            put_channels<T>(dx + h * dx_strides[0], dx_strides[0], sum, is_whole, last - h, alpha, beta);
        UNROLL for (int j = 0; j < VEC; ++j) {
            UNROLL for (int i = 0; i < HALF; ++i) own[j][i] = own[j][i + STRIP];
            UNROLL for (int i = 0; i < 2 * HALF; ++i) xs[j][i] = xs[j][i + STRIP], t[j][i] = t[j][i + STRIP];
        }
    }
}
