/*@kernel
name    = "divisive_norm_fwd_planes_{T}_w{W}_v{VEC}_m{MEANS}"
about   = """Divisive normalization of planes with w innermost, with (m1) or without means: a thread walks \
             down {VEC} columns, lanes meet for the sums along w; windows of at most {W} cells a side."""
T       = ["f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2, 4]
MEANS   = [0, 1]
when    = ["sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* means", "T* y", "int items", "int lanes_log2", "int width", "int height",
           "int per", "int is_near", "int lead", "int useful", "FastDiv segments", "FastDiv chunks",
           "FastDiv channels", "int window", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset",
           "Array<int64_t,3> x_strides", "Array<int64_t,3> means_strides", "Array<int64_t,3> y_strides",
           "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(items << lanes_log2, 128)", 1, 1]
needs   = ["1 <= window <= W", "1 <= lanes_log2 <= 5", "per % 8 == 0", "width % VEC == 0"]
problems = ["""divisive_norm_fwd x=1x1x45x{13 * VEC}:{T} \
               means={'1x1x45x%d:%s' % (13 * VEC, T) if MEANS else 'none'} window={W} scale=2.0 offset=0.5""",
            """divisive_norm_fwd x=1x1x45x{45 * VEC}:{T} window={W - 1} scale=2.0 power=1.5 \
               means={'1x1x45x%d:%s' % (45 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=2x3x5x{VEC}:{T}@{400 * VEC},{100 * VEC},{12 * VEC},1 \
               means={'2x3x5x%d:%s@%d,%d,%d,1' % (VEC, T, 420 * VEC, 100 * VEC, 8 * VEC) if MEANS \
               else 'none'} y=2x3x5x{VEC}:{T}@{360 * VEC},{100 * VEC},{16 * VEC},1 window={W - 2} \
               scale=-0.25""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W} power=0.999 offset=0.0 \
               scale=2.0 means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W} power=0.5 \
               means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W - 1} power=1.0 \
               means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W} power=1.0 \
               means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W - 1} power=0.5 \
               means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x1x9x{3 * VEC}:{T} window={W - 1} power=0.999 \
               means={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'} \
               offset=0.0 scale=2.0"""]
@*/
// Strides are h c n.
#include "forward.cuh"
#include "planes.cuh"

constexpr int STRIP = W > 9 || MEANS && VEC == 4 ? 4 : 8;
constexpr int BLOCKS = W > 9 ? 1                                               // of an SM
                       : MEANS || W > 5 || VEC * sizeof(T) > 8 ? 4 : VEC > 2 ? 5 : 8;

extern "C" __global__ __launch_bounds__(128, BLOCKS) void KERNEL(
    const T* x, const T* means, T* y, int items, int lanes_log2, int width, int height, int per, int is_near,
    int lead, int useful, FastDiv segments, FastDiv chunks, FastDiv channels, int window, Acc_T scale,
    Acc_T power, int quarters, Acc_T offset, Array<i64, 3> x_strides, Array<i64, 3> means_strides,
    Array<i64, 3> y_strides, Acc_T alpha, Acc_T beta) {
    const Site<VEC> site(lanes_log2, items, width, per, lead, useful, segments, chunks, channels);
    x = site.start(x, x_strides), means = site.start(means, means_strides), y = site.start(y, y_strides);
    const Work<T> work{height, per, window, is_near != 0, scale, offset, alpha, beta, {power, quarters}};
    const auto walk = [&](auto is_full) {
        forward<decltype(is_full)::value, W, STRIP, MEANS, VEC>(
            site, x, means, y, x_strides[0], means_strides[0], y_strides[0], work);
    };
    if (window == W) walk(Is<true>());
    else walk(Is<false>());
}
