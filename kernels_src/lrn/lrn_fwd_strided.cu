/*@kernel
name    = "lrn_fwd_strided_{T}_w{W}_v{VEC}"
about   = """Local response normalization for any strides: a thread walks the channels of {VEC} neighbouring \
             positions, windows of at most {W} channels."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2]
when    = ["VEC == 1 or sizeof(T) == 2", "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "T* y", "int positions", "int channels", "int per", "FastDiv chunks", "int window",
           "Acc_T scale", "Acc_T power", "Acc_T offset", "Array<FastDiv,3> digits", "int64_t x_channel",
           "int64_t y_channel", "Array<int64_t,4> x_strides", "Array<int64_t,4> y_strides", "Acc_T alpha",
           "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(positions, 128) * chunks", 1, 1]
needs   = ["1 <= window <= W", "per % 8 == 0", "positions >= 1"]
problems = ["lrn_fwd n2c27h5w{6 if VEC == 2 else 7} window={W} scale=2.0 {T}",
            """lrn_fwd n2c40h3w{8 if VEC == 2 else 5} window={W - 1} scale=2.0 power=1.5 offset=0.5 {T} \
               {'nchw' if VEC == 2 else 'nhwc'}""",
            """lrn_fwd x=2x19x3x2x4:{T}@1300,64,20,10,{1 if VEC == 2 else 2} \
               y=2x19x3x2x4:{T}@1400,66,22,10,{1 if VEC == 2 else 2} window={W - 3} scale=-0.25"""]
@*/
// A block is 128 positions by one chunk of `per` channels; chunks of the same positions follow each other,
// so that what they share is found in the L2 cache. held: x of channels c - half … c + STRIP + half.
#include "lrn.cuh"

constexpr int STRIP = 8, HALF = Reach<W>::half;

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, T* y, int positions, int channels, int per, FastDiv chunks, int window, Acc_T scale,
    Acc_T power, Acc_T offset, Array<FastDiv, 3> digits, i64 x_channel, i64 y_channel,
    Array<i64, 4> x_strides, Array<i64, 4> y_strides, Acc_T alpha, Acc_T beta) {
    using A = Acc_T;
    unsigned chunk;
    const unsigned position = chunks.divmod(blockIdx.x, chunk) * 128 + threadIdx.x;
    if (position >= positions) return;
    const Place place(position, digits);
    x += place.offset(x_strides), y += place.offset(y_strides);
    const int first = chunk * per, last = min(channels, first + per);
    const Power<T> of{power};

    A held[VEC][STRIP + 2 * HALF];
    const auto load = [&](int i, int c) {
        Vec<T, VEC> v;
        UNROLL for (int j = 0; j < VEC; ++j) v[j] = from_acc<T>(A(0));
        if (unsigned(c) < unsigned(channels)) v = Vec<T, VEC>::load_nc(x + c * x_channel);
        UNROLL for (int j = 0; j < VEC; ++j) held[j][i] = to_acc(v[j]);
    };
    UNROLL for (int i = 0; i < 2 * HALF; ++i) load(i, first - HALF + i);
    NO_UNROLL for (int c = first; c < last; c += STRIP) {
        UNROLL for (int i = 0; i < STRIP; ++i) load(2 * HALF + i, c + HALF + i);
        A out[STRIP][VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            A q[STRIP + 2 * HALF], s[STRIP];
            UNROLL for (int i = 0; i < STRIP + 2 * HALF; ++i) q[i] = held[j][i] * held[j][i];
            window_sums<W, true>(s, q, window);
            UNROLL for (int i = 0; i < STRIP; ++i) s[i] = offset + scale * s[i];
            of.raise(s);
            UNROLL for (int i = 0; i < STRIP; ++i) out[i][j] = held[j][HALF + i] * s[i];
            UNROLL for (int i = 0; i < 2 * HALF; ++i) held[j][i] = held[j][i + STRIP];
        }
        UNROLL for (int i = 0; i < STRIP; ++i)
            if (c + i < last) put(y + (c + i) * y_channel, out[i], alpha, beta);
    }
}
