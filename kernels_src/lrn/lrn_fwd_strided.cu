/*@kernel
name    = "lrn_fwd_strided_{T}_w{W}_v{VEC}"
about   = """Local response normalization for any strides: a thread walks the channels of {VEC} neighbouring \
             positions, windows of at most {W} channels."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2, 4]
when    = ["VEC == 1 or VEC * sizeof(T) <= (8 if W == 5 else 4)", "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "int positions", "int channels", "int per", "FastDiv chunks",
           "int window", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset", "int dims",
           "Array<FastDiv,3> digits", "int is_near", "int64_t x_channel", "int64_t y_channel",
           "Array<int64_t,4> x_strides", "Array<int64_t,4> y_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(positions, 128) * chunks", 1, 1]
needs   = ["1 <= window <= W", "per % 16 == 0", "positions >= 1"]
problems = ["lrn_fwd n2c27h5w{4 + VEC if VEC > 1 else 7} window={W} scale=2.0 {T}",
            """lrn_fwd n2c40h3w{4 + VEC if VEC > 1 else 5} window={W - 1} scale=2.0 power=1.5 offset=0.5 \
               {T} {'nchw' if VEC > 1 else 'nhwc'}""",
            """lrn_fwd x=2x19x3x2x{3 * VEC}:{T}@2560,128,40,16,{1 if VEC > 1 else 2} \
               y=2x19x3x2x{3 * VEC}:{T}@2600,136,44,20,{1 if VEC > 1 else 2} window={W - 3} scale=-0.25""",
            "lrn_fwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw window={W - 2} scale=2.0 power=0.5",
            """lrn_fwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw \
               window={9 if W == 9 else W - 4} scale=2.0 power=1.0""",
            """lrn_fwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw \
               window={11 if W == 16 else W} scale=0.0 offset=0.0 power=1.5""",
            """lrn_fwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw window={10 if W == 16 else W} scale=1e-310 \
               power={0.9935 if T == f64 else 0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// A block is 128 positions by one chunk of `per` channels; chunks of the same positions follow each other,
// so that what they share is found in the L2 cache. held: x of channels c - half … c + STRIP + half.
// is_near: STRIP channels span less than 2^31 elements; then whole strips are moved without questions.
// quarters is opaque where the compiler would copy the sums of the next j for each of its values, and the
// power of one value into the copy of another, where it cannot run.
#include "window.cuh"

constexpr int STRIP = VEC * sizeof(T) < 8 ? 16 : 8, HALF = Reach<W>::half;

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, int positions, int channels, int per, FastDiv chunks, int window, Acc_T scale,
    Acc_T power, int quarters, Acc_T offset, int dims, Array<FastDiv, 3> digits, int is_near,
    i64 x_channel, i64 y_channel, Array<i64, 4> x_strides, Array<i64, 4> y_strides, Acc_T alpha,
    Acc_T beta) {
    using A = Acc_T;
    using Chunk = Vec<T, VEC>;
    unsigned chunk;
    const unsigned position = chunks.divmod(blockIdx.x, chunk) * 128 + threadIdx.x;
    if (position >= positions) return;
    i64 at[2];
    locate(at, position, digits, dims, x_strides, y_strides);
    const int first = chunk * per, last = min(channels, first + per);
    x += at[0], y = whole_pointer(y + (at[1] + first * y_channel));
    const bool is_plain = is_near && alpha == 1 && beta == 0;

    A held[VEC][STRIP + 2 * HALF];
    Chunk before[2 * HALF];
    channels_of(before, x, x_channel, first - HALF, channels);
    UNROLL for (int i = 0; i < 2 * HALF; ++i) UNROLL for (int j = 0; j < VEC; ++j)
        held[j][i] = to_acc(before[i][j]);
    NO_UNROLL for (int c = first; c < last; c += STRIP, y += STRIP * y_channel) {
        Chunk next[STRIP];
        if (is_near && c + HALF + STRIP <= channels)
            next_channels(next, x + (c + HALF) * x_channel, x_channel);
        else channels_of(next, x, x_channel, c + HALF, channels);
        A out[STRIP][VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            A s[STRIP];
            UNROLL for (int i = 0; i < STRIP; ++i) held[j][2 * HALF + i] = to_acc(next[i][j]);
            window_sums_of<W, true, true>(s, held[j], window);
            UNROLL for (int i = 0; i < STRIP; ++i) s[i] = offset + scale * s[i];
            if constexpr (W == 5 && VEC > 1) asm("" : "+r"(quarters));
            Power<T>{power, quarters}.raise(s);
            UNROLL for (int i = 0; i < STRIP; ++i) out[i][j] = held[j][HALF + i] * s[i];
            UNROLL for (int i = 0; i < 2 * HALF; ++i) held[j][i] = held[j][i + STRIP];
        }
        put_channels<T>(y, y_channel, out, is_plain && c + STRIP <= last, last - c, alpha, beta);
    }
}
