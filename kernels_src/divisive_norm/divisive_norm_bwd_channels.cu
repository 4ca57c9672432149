/*@kernel
name    = "divisive_norm_bwd_channels_{T}_w{W}_v{VEC}_m{MEANS}"
about   = """Gradient of divisive normalization with channels innermost, with (m1) or without means and \
             their gradient: a thread walks down a column of {VEC} channels, columns meet for the sums along \
             w; windows of at most {W} cells a side."""
T       = ["f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2, 4]
MEANS   = [0, 1]
when    = ["VEC <= (2 if MEANS or W > 5 or sizeof(T) > 2 else 4)", "VEC == 1 or MEANS == 0 or W < 16",
           "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* means", "const T* dy", "T* dx", "T* dmeans", "int items",
           "int lanes_log2", "int vectors", "int width", "int height", "int per", "int is_near", "int lead",
           "int useful", "FastDiv segments", "FastDiv chunks", "FastDiv channels", "int window",
           "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset", "Acc_T slope", "Acc_T lift",
           "Array<int64_t,3> x_strides", "Array<int64_t,3> means_strides", "Array<int64_t,3> dy_strides",
           "Array<int64_t,3> dx_strides", "Array<int64_t,3> dmeans_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["items", 1, 1]
needs   = ["1 <= window <= W", "0 <= lanes_log2 <= 5", "per % 8 == 0"]
problems = ["""divisive_norm_bwd x=1x{3 * VEC}x23x70:{T}@nhwc dy=1x{3 * VEC}x23x70:{T}@nhwc \
               means={'1x%dx23x70:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               dmeans={'1x%dx23x70:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W} scale=2.0 offset=0.5""",
            """divisive_norm_bwd x=1x{3 * VEC}x47x7:{T}@nhwc dy=1x{3 * VEC}x47x7:{T}@nhwc \
               means={'1x%dx47x7:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W - 1} scale=2.0 power=1.5 dmeans=none""",
            """divisive_norm_bwd x=2x{3 * VEC}x5x4:{T}@nhwc dy=2x{3 * VEC}x5x4:{T}@nhwc \
               dmeans={'2x%dx5x4:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W - 2} scale=-0.25 power=0.5""",
            """divisive_norm_bwd x=1x{3 * VEC}x47x3:{T}@nhwc dy=1x{3 * VEC}x47x3:{T}@nhwc \
               dmeans={'1x%dx47x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W} power=0.999 offset=0.0 scale=2.0""",
            """divisive_norm_bwd x=1x{3 * VEC}x9x3:{T}@nhwc dy=1x{3 * VEC}x9x3:{T}@nhwc \
               means={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W} power=0.5 dmeans=none""",
            """divisive_norm_bwd x=1x{3 * VEC}x47x3:{T}@nhwc dy=1x{3 * VEC}x47x3:{T}@nhwc \
               means={'1x%dx47x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               dmeans={'1x%dx47x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               window={W - 1}""",
            """divisive_norm_bwd x=1x{3 * VEC}x9x3:{T}@nhwc dy=1x{3 * VEC}x9x3:{T}@nhwc \
               window={W} power=1.0 \
               dmeans={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x{3 * VEC}x9x3:{T}@nhwc dy=1x{3 * VEC}x9x3:{T}@nhwc \
               window={W - 1} power=1.0 \
               dmeans={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_bwd x=1x{3 * VEC}x9x3:{T}@nhwc dy=1x{3 * VEC}x9x3:{T}@nhwc \
               window={W - 1} power=0.999 \
               dmeans={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               offset=0.0 scale=2.0"""]
@*/
// Strides are h w n; `channels` counts the groups of them.
#include "backward.cuh"
#include "channels.cuh"

constexpr int STRIP = 4;
constexpr int BLOCKS = W > 9 || VEC * MEANS > 1 && W > 5 ? 1 : 2;                              // of an SM

extern "C" __global__ __launch_bounds__(256, BLOCKS) void KERNEL(
    const T* x, const T* means, const T* dy, T* dx, T* dmeans, int items, int lanes_log2, int vectors,
    int width, int height, int per, int is_near, int lead, int useful, FastDiv segments, FastDiv chunks,
    FastDiv channels, int window, Acc_T scale, Acc_T power, int quarters, Acc_T offset, Acc_T slope,
    Acc_T lift, Array<i64, 3> x_strides, Array<i64, 3> means_strides, Array<i64, 3> dy_strides,
    Array<i64, 3> dx_strides, Array<i64, 3> dmeans_strides, Acc_T alpha, Acc_T beta) {
    using Place = ChannelSite<VEC, STRIP, false, Acc_T>;
    __shared__ Place::Word room[STRIP * Place::THREADS];
    const Place site(room, lanes_log2, vectors, width, per, lead, useful, segments, chunks, channels);
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
