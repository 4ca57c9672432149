/*@kernel
name    = "lrn_bwd_strided_{T}_w{W}_v{VEC}"
about   = """Gradient of local response normalization for any strides: a thread walks the channels of {VEC} \
             neighbouring positions, windows of at most {W} channels."""
T       = ["f64", "f32", "f16", "bf16"]
W       = [5, 9, 16]
VEC     = [1, 2]
when    = ["VEC == 1 or sizeof(T) == 2", "sm == 75 or T == bf16"]
targets = ["sm_75", "sm_80"]
params  = ["const T* x", "const T* dy", "T* dx", "int positions", "int channels", "int per",
           "FastDiv chunks", "int window", "Acc_T scale", "Acc_T power", "int quarters", "Acc_T offset",
           "Acc_T slope", "Acc_T lift", "int dims", "Array<FastDiv,3> digits", "int is_near",
           "int64_t x_channel", "int64_t dy_channel", "int64_t dx_channel", "Array<int64_t,4> x_strides",
           "Array<int64_t,4> dy_strides", "Array<int64_t,4> dx_strides", "Acc_T alpha", "Acc_T beta"]
block   = [128, 1, 1]
grid    = ["ceil_div(positions, 128) * chunks", 1, 1]
needs   = ["1 <= window <= W", "per % 8 == 0", "positions >= 1"]
problems = ["lrn_bwd n2c27h5w{4 + VEC if VEC > 1 else 7} window={W} scale=2.0 {T}",
            """lrn_bwd n2c40h3w{4 + VEC if VEC > 1 else 5} window={W - 1} scale=2.0 power=1.5 offset=0.5 \
               {T} {'nchw' if VEC == 2 else 'nhwc'}""",
            """lrn_bwd x=2x19x3x2x4:{T}@1300,64,20,10,{1 if VEC == 2 else 2} \
               dy=2x19x3x2x4:{T}@1400,66,22,10,{1 if VEC == 2 else 2} \
               dx=2x19x3x2x4:{T}@1500,72,24,12,{1 if VEC == 2 else 2} window={W - 3} scale=-0.25""",
            "lrn_bwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw window={W - 2} scale=2.0 power=0.5",
            """lrn_bwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw \
               window={9 if W == 9 else W - 4} scale=2.0 power=1.0""",
            """lrn_bwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw \
               window={11 if W == 16 else W} scale=0.0 offset=0.0 power=1.5""",
            """lrn_bwd n1c{31 + W // 2}h3w{3 * VEC} {T} nchw window={10 if W == 16 else W} scale=1e-310 \
               power={-0.999 if T == f64 else -0.9} \
               offset={1e-310 if T == f64 else 1e-39 if T == f32 else 0.5}"""]
@*/
// Blocks as in lrn_fwd_strided. At channel c a thread holds
//   xs   x                             of c        … c + 2 * HALF + STRIP
//   own  dy * s^-power                 of c        … c + HALF + STRIP
//   t    lift * dy * x * s^-(power+1)  of c - HALF … c + HALF + STRIP
// and makes dx of c … c + STRIP. All begin as 0 some strips before the first channel.
#include "window.cuh"

constexpr int STRIP = 8, HALF = Reach<W>::half, LEAD = (2 * HALF + STRIP - 1) / STRIP * STRIP;

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, const T* dy, T* dx, int positions, int channels, int per, FastDiv chunks, int window,
    Acc_T scale, Acc_T power, int quarters, Acc_T offset, Acc_T slope, Acc_T lift, int dims,
    Array<FastDiv, 3> digits, int is_near, i64 x_channel, i64 dy_channel, i64 dx_channel,
    Array<i64, 4> x_strides, Array<i64, 4> dy_strides, Array<i64, 4> dx_strides, Acc_T alpha,
    Acc_T beta) {
    using A = Acc_T;
    using Chunk = Vec<T, VEC>;
    unsigned chunk;
    const unsigned position = chunks.divmod(blockIdx.x, chunk) * 128 + threadIdx.x;
    if (position >= positions) return;
    i64 at[3];
    locate(at, position, digits, dims, x_strides, dy_strides, dx_strides);
    const int first = chunk * per, last = min(channels, first + per);
    x += at[0], dy += at[1], dx = whole_pointer(dx + (at[2] + (first - LEAD) * dx_channel));
    const bool is_plain = is_near && alpha == 1 && beta == 0;
    const Power<T> of{power, quarters};

    A xs[VEC][STRIP + 2 * HALF], own[VEC][STRIP + HALF], t[VEC][STRIP + 2 * HALF];
    Chunk before[2 * HALF];
    channels_of(before, x, x_channel, first - LEAD, channels);
    UNROLL for (int i = 0; i < 2 * HALF; ++i) UNROLL for (int j = 0; j < VEC; ++j)
        xs[j][i] = to_acc(before[i][j]), t[j][i] = 0;
    UNROLL for (int j = 0; j < VEC; ++j) UNROLL for (int i = 0; i < HALF; ++i) own[j][i] = 0;
    NO_UNROLL for (int c = first - LEAD; c < last; c += STRIP, dx += STRIP * dx_channel) {
        Chunk new_x[STRIP], new_dy[STRIP];
        const bool is_whole = is_near && c + HALF >= 0 && c + 2 * HALF + STRIP <= channels;
        if (is_whole) {
            next_channels(new_x, x + (c + 2 * HALF) * x_channel, x_channel);
            next_channels(new_dy, dy + (c + HALF) * dy_channel, dy_channel);
        } else {
            channels_of(new_x, x, x_channel, c + 2 * HALF, channels);
            channels_of(new_dy, dy, dy_channel, c + HALF, channels);
        }
        A out[STRIP][VEC];
        UNROLL for (int j = 0; j < VEC; ++j) {
            A s[STRIP], term[STRIP], d[STRIP];
            UNROLL for (int i = 0; i < STRIP; ++i) xs[j][2 * HALF + i] = to_acc(new_x[i][j]);
            window_sums_of<W, true, true>(s, xs[j], window);
            UNROLL for (int i = 0; i < STRIP; ++i) s[i] = offset + scale * s[i];
            UNROLL for (int i = 0; i < STRIP; ++i) d[i] = to_acc(new_dy[i][j]);
            gradient_terms(of, s, term, d, [&](int i) { return xs[j][HALF + i]; }, lift);
            UNROLL for (int i = 0; i < STRIP; ++i) own[j][HALF + i] = s[i], t[j][2 * HALF + i] = term[i];
            // Beyond the ends a term may be infinite.
            if (!is_whole) UNROLL for (int i = 0; i < STRIP; ++i)
                if (unsigned(c + HALF + i) >= unsigned(channels)) t[j][2 * HALF + i] = 0;
            A sum[STRIP];
            window_sums_of<W, false, false>(sum, t[j], window);
            UNROLL for (int i = 0; i < STRIP; ++i) out[i][j] = own[j][i] - slope * (xs[j][i] * sum[i]);
            UNROLL for (int i = 0; i < HALF; ++i) own[j][i] = own[j][i + STRIP];
            UNROLL for (int i = 0; i < 2 * HALF; ++i) xs[j][i] = xs[j][i + STRIP], t[j][i] = t[j][i + STRIP];
        }
        if (c >= first)
            put_channels<T>(dx, dx_channel, out, is_plain && c + STRIP <= last, last - c, alpha, beta);
    }
}
