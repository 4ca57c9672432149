/*@kernel
name    = "divisive_norm_fwd_channels_{T}_w{W}_v{VEC}_m{MEANS}"
about   = """Divisive normalization with channels innermost, with (m1) or without means: a thread walks down \
             a column of {VEC} channels, columns meet for the sums along w; windows of at most {W} cells a \
             side."""
T       = ["f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 4]
MEANS   = [0, 1]
when    = ["sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* means", "T* y", "int items", "int lanes_log2", "int vectors", "int width",
           "int height", "int per", "int is_near", "int lead", "int useful", "FastDiv segments",
           "FastDiv chunks", "FastDiv channels", "int window", "Acc_T scale", "Acc_T power", "int quarters",
           "Acc_T offset", "Array<int64_t,3> x_strides", "Array<int64_t,3> means_strides",
           "Array<int64_t,3> y_strides", "Acc_T alpha", "Acc_T beta"]
block   = [256, 1, 1]
grid    = ["items", 1, 1]
needs   = ["1 <= window <= W", "0 <= lanes_log2 <= 5", "per % 8 == 0"]
problems = ["""divisive_norm_fwd x=1x{3 * VEC}x23x70:{T}@nhwc window={W} scale=2.0 offset=0.5 \
               means={'1x%dx23x70:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{5 * VEC}x9x7:{T}@nhwc window={W - 1} scale=2.0 power=1.5 \
               means={'1x%dx9x7:%s@nhwc' % (5 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=2x{3 * VEC}x5x4:{T}@nhwc window={W - 2} scale=-0.25 power=0.5 \
               means={'2x%dx5x4:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{3 * VEC}x47x3:{T}@nhwc window={W} power=0.999 offset=0.0 \
               scale=2.0 means={'1x%dx47x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{31 * VEC}x9x2:{T}@nhwc window={W} power=0.5 \
               means={'1x%dx9x2:%s@nhwc' % (31 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{3 * VEC}x47x3:{T}@nhwc window={W - 1} \
               means={'1x%dx47x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{3 * VEC}x9x3:{T}@nhwc window={W} power=1.0 \
               means={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{31 * VEC}x9x2:{T}@nhwc window={W - 1} power=1.0 \
               means={'1x%dx9x2:%s@nhwc' % (31 * VEC, T) if MEANS else 'none'}""",
            """divisive_norm_fwd x=1x{3 * VEC}x9x3:{T}@nhwc window={W - 1} power=0.999 \
               means={'1x%dx9x3:%s@nhwc' % (3 * VEC, T) if MEANS else 'none'} \
               offset=0.0 scale=2.0"""]
@*/
// Strides are h w n; `channels` counts the groups of them.
#include "forward.cuh"
#include "channels.cuh"

constexpr int STRIP = 4;
constexpr int BLOCKS = W > 9 || MEANS && W > 5 && sizeof(T) > 2 ? 1            // of an SM
                       : MEANS || W > 5 ? 2 : 3;

extern "C" __global__ __launch_bounds__(256, BLOCKS) void KERNEL(
    const T* x, const T* means, T* y, int items, int lanes_log2, int vectors, int width, int height, int per,
    int is_near, int lead, int useful, FastDiv segments, FastDiv chunks, FastDiv channels, int window,
    Acc_T scale, Acc_T power, int quarters, Acc_T offset, Array<i64, 3> x_strides,
    Array<i64, 3> means_strides, Array<i64, 3> y_strides, Acc_T alpha, Acc_T beta) {
    using Place = ChannelSite<VEC, STRIP, W == 5, Acc_T>;
    __shared__ Place::Word room[STRIP * Place::THREADS];
    const Place site(room, lanes_log2, vectors, width, per, lead, useful, segments, chunks, channels);
    x = site.start(x, x_strides), means = site.start(means, means_strides), y = site.start(y, y_strides);
    const Work<T> work{height, per, window, is_near != 0, scale, offset, alpha, beta, {power, quarters}};
    const auto walk = [&](auto is_full) {
        forward<decltype(is_full)::value, W, STRIP, MEANS, VEC>(
            site, x, means, y, x_strides[0], means_strides[0], y_strides[0], work);
    };
    if (window == W) walk(Is<true>());
    else walk(Is<false>());
}
