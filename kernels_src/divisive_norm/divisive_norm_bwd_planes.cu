/*@kernel
name    = "divisive_norm_bwd_planes_{T}_w{W}_v{VEC}_m{MEANS}"
about   = """Gradient of divisive normalization of planes with w innermost, with (m1) or without means \
             and their gradient: a thread walks down {VEC} columns, lanes meet for the sums along w; windows \
             of at most {W} cells a side."""
T       = ["f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2, 4]
MEANS   = [0, 1]
when    = ["VEC <= (2 if MEANS or W > 5 or sizeof(T) > 2 else 4)", "VEC == 1 or MEANS == 0 or W < 16",
           "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* means", "const T* dy", "T* dx", "T* dmeans", "int items",
           "int lanes_log2", "int width", "int height", "int per", "int is_near", "int lead", "int useful",
           "FastDiv segments", "FastDiv chunks", "FastDiv channels", "int window", "Acc_T scale",
           "Acc_T power", "int quarters", "Acc_T offset", "Acc_T slope", "Acc_T lift",
           "Array<int64_t,3> x_strides", "Array<int64_t,3> means_strides", "Array<int64_t,3> dy_strides",
           "Array<int64_t,3> dx_strides", "Array<int64_t,3> dmeans_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(items << lanes_log2, 128)", 1, 1]
needs   = ["1 <= window <= W", "1 <= lanes_log2 <= 5", "per % 8 == 0", "width % VEC == 0"]
problems = ["""divisive_norm_bwd x=1x1x45x{13 * VEC}:{T} dy=1x1x45x{13 * VEC}:{T} \
               means={'1x1x45x%d:%s' % (13 * VEC, T) if MEANS else 'none'} \
               dmeans={'1x1x45x%d:%s' % (13 * VEC, T) if MEANS else 'none'} window={W} scale=2.0 \
               offset=0.5""",
            """divisive_norm_bwd x=1x1x45x{(31 if W == 16 else 45) * VEC}:{T} \
               dy=1x1x45x{(31 if W == 16 else 45) * VEC}:{T} dmeans=none \
               means={'1x1x45x%d:%s' % ((31 if W == 16 else 45) * VEC, T) if MEANS else 'none'} \
               window={W - 1} scale=2.0 power=1.5""",
            """divisive_norm_bwd x=2x3x5x{VEC}:{T}@{400 * VEC},{100 * VEC},{12 * VEC},1 \
               dy=2x3x5x{VEC}:{T}@{480 * VEC},{100 * VEC},{20 * VEC},1 \
               dx=2x3x5x{VEC}:{T}@{360 * VEC},{100 * VEC},{16 * VEC},1 dmeans={'2x3x5x%d:%s@%d,%d,%d,1' \
               % (VEC, T, 420 * VEC, 100 * VEC, 8 * VEC) if MEANS else 'none'} window={W - 2} scale=-0.25""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W} power=0.999 \
               offset=0.0 scale=2.0 dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W} power=0.5 \
               dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W - 1} power=1.0 \
               dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W} power=1.0 \
               dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W - 1} power=0.5 \
               dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x1x9x{3 * VEC}:{T} dy=1x1x9x{3 * VEC}:{T} window={W - 1} power=0.999 \
               dmeans={'1x1x9x%d:%s' % (3 * VEC, T) if MEANS else 'none'} \
               offset=0.0 scale=2.0"""]
@*/
// Strides are h c n.
#include "backward.cuh"
#include "planes.cuh"

constexpr int STRIP = 4;
constexpr int BLOCKS = W > 9 ? 1                                               // of an SM
                       : MEANS && W > 5 ? 3 : MEANS || W > 5 || VEC == 4 ? 4 : VEC == 2 ? 5 : 6;

extern "C" __global__ __launch_bounds__(128, BLOCKS) void KERNEL(
    const T* x, const T* means, const T* dy, T* dx, T* dmeans, int items, int lanes_log2, int width,
    int height, int per, int is_near, int lead, int useful, FastDiv segments, FastDiv chunks,
    FastDiv channels, int window, Acc_T scale, Acc_T power, int quarters, Acc_T offset, Acc_T slope,
    Acc_T lift, Array<i64, 3> x_strides, Array<i64, 3> means_strides, Array<i64, 3> dy_strides,
    Array<i64, 3> dx_strides, Array<i64, 3> dmeans_strides, Acc_T alpha, Acc_T beta) {
    const Site<VEC> site(lanes_log2, items, width, per, lead, useful, segments, chunks, channels);
    const Operands<T> at{site.start(x, x_strides), site.start(means, means_strides),
                         site.start(dy, dy_strides), site.start(dx, dx_strides),
                         site.start(dmeans, dmeans_strides), x_strides[0], means_strides[0], dy_strides[0],
                         dx_strides[0], dmeans_strides[0]};
    const Work<T> work{height, per, window, is_near != 0, scale, offset, alpha, beta,
                       {power, quarters}, slope, lift};
    const auto walk = [&](auto is_full) {
        backward<decltype(is_full)::value, W, STRIP, MEANS, VEC>(site, at, work);
    };
    if (window == W) walk(Is<true>());
    else walk(Is<false>());
}
