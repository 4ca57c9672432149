/*@kernel
name   = "conv_depthwise_{T}"
about  = """Depthwise convolution of channels-last tensors, and its data gradient: \
            a thread makes 16 bytes of channels x 4 neighbouring outputs."""
T      = ["f32", "f16", "bf16"]
params = ["const T* x", "const T* w", "T* y", "float alpha", "float beta", "int channels", "int strips",
          "int width", "int lanes_log", "int slides", "int skip", "Array<FastDiv, 3> out",
          "Array<int, 3> size", "Array<int, 3> taps", "Array<int, 3> stride", "Array<int, 3> pad",
          "Array<int, 3> dilation", "Array<FastDiv, 3> divide", "int64_t x_n", "Array<int64_t, 3> x_s",
          "int64_t w_c", "Array<int64_t, 3> w_s", "int64_t y_n", "Array<int64_t, 3> y_s", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["""ceil_div(strips, 256 // 2 ** lanes_log) \
             * ceil_div(channels, 2 ** lanes_log * (16 // sizeof(T)))""", 1, 1]
smem   = "taps[0] * taps[1] * taps[2] * 2 ** lanes_log * (16 // sizeof(T)) * 4"
needs  = ["channels % (16 // sizeof(T)) == 0", "strips >= 1", "channels >= 1",
          "0 <= lanes_log and lanes_log <= 4",
          "slides == 0 or stride[2] == 1 and dilation[2] == 1 and divide[2] == 1"]
marks  = ["epilogue"]
problems = ["""conv_fprop n2c24d4h5w7 k24t2r3s3 pre_pad=1,0,2 post_pad=0,2,1 stride=2,1,1 dilation=1,2,1 \
               groups=24 {T} nhwc""",
            "conv_dgrad n2c8d5h6w5 k8t2r2s3 pre_pad=1,0,1 post_pad=0,1,1 stride=2,1,2 groups=8 {T} nhwc",
            """conv_fprop n2c{512 // sizeof(T) + 16}h5w9 k{512 // sizeof(T) + 16}r3s3 pad1 stride2 \
               groups={512 // sizeof(T) + 16} {T} nhwc""",
            """conv_fprop n1c{256 // sizeof(T)}h5w6 k{256 // sizeof(T)}r5s5 pad2 groups={256 // sizeof(T)} \
               {T} nhwc""",
            "conv_dgrad n2c24d4h5w9 k24t2r3s6 pre_pad=1,0,2 post_pad=0,2,3 groups=24 {T} nhwc"]
@*/
// y[i] = sum over taps t of w[t] * x[(i * stride - pad + t * dilation) / divide], where that
// is a whole number inside x.
//   forward         divide 1
//   data gradient   stride 1, divide = the stride, the filter read backwards:
//                   with t' = taps-1-t, pad' = dilation*(taps-1) - pad
// A block is 2^lanes_log threads along the channels, of 16 bytes each, by strips of 4 outputs along the last
// dim; its filters are in shared memory as [tap][channel]. slides: the last dim has steps of one pixel, so
// that the inputs of a strip for a tap are those for the tap before but for one. Else they overlap and come
// from L1. `skip`: a tap outside x is left out rather than multiplied by zero (which matters for infinite
// filters only).
#include "lib/epilogue.cuh"
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* w, T* y, float alpha, float beta, int channels, int strips, int width,
    int lanes_log, int slides, int skip, Array<FastDiv, 3> out, Array<int, 3> size, Array<int, 3> taps,
    Array<int, 3> stride, Array<int, 3> pad, Array<int, 3> dilation, Array<FastDiv, 3> divide, i64 x_n,
    Array<i64, 3> x_s, i64 w_c, Array<i64, 3> w_s, i64 y_n, Array<i64, 3> y_s, Fuse fuse) {
    constexpr int V = 16 / sizeof(T), P = 4;
    const int wide = V << lanes_log;
    extern __shared__ __align__(16) float filters[];
    const unsigned blocks_c = ceil_div(channels, wide);
    const int first = blockIdx.x % blocks_c * wide, all_taps = taps[0] * taps[1] * taps[2];

    for (int i = threadIdx.x; i < all_taps * wide; i += 256) {
        const int c = first + i % wide, tap = i / wide;
        const int s = tap % taps[2], r = tap / taps[2] % taps[1], t = tap / taps[2] / taps[1];
        filters[i] = c < channels ? to_acc(w[c * w_c + t * w_s[0] + r * w_s[1] + s * w_s[2]]) : 0.f;
    }
    __syncthreads();
    const int lane = threadIdx.x & ((1 << lanes_log) - 1), channel = first + lane * V;
    unsigned n = blockIdx.x / blocks_c * (256 >> lanes_log) + (threadIdx.x >> lanes_log), place[3];
    if (n >= unsigned(strips) || channel >= channels) return;
    n = out[2].divmod(n, place[2]);
    const int line = n;                                            // of outputs along the last dim
    UNROLL for (int i = 1; i >= 0; --i) n = out[i].divmod(n, place[i]);
    const int q0 = place[2] * P;
    x += n * x_n + channel;

    // Where output i's tap t reads; false outside x and between its pixels.
    auto reads = [&](int dim, int i, int t, int& z) {
        z = i * stride[dim] - pad[dim] + t * dilation[dim];
        unsigned rest = 0;
        // What is negative becomes (2^31 + z) / by: outside too.
        if (divide[dim].by > 1) z = divide[dim].divmod(z, rest);
        return unsigned(z) < unsigned(size[dim]) && rest == 0;
    };
    float acc[P][V] = {};
    const float* filter = filters + lane * V;
    NO_UNROLL for (int t = 0; t < taps[0]; ++t)
        NO_UNROLL for (int r = 0; r < taps[1]; ++r) {
            int d, h;
            const bool valid_d = reads(0, place[0], t, d), valid = reads(1, place[1], r, h) && valid_d;
            if (skip && !valid) {
                filter += taps[2] * wide;
                continue;
            }
            const T* row = x + d * x_s[0] + h * x_s[1];
            if (slides) {
                float in[P][V];
                bool inside[P];
                const auto fetch = [&](int at, int to) {
                    const int z = q0 - pad[2] + at;
                    Vec<T, V> v = {};
                    inside[to] = valid && unsigned(z) < unsigned(size[2]);
                    if (inside[to]) v = Vec<T, V>::load_nc(row + z * x_s[2]);
                    UNROLL for (int c = 0; c < V; ++c) in[to][c] = to_acc(v[c]);
                };
                UNROLL for (int j = 0; j < P - 1; ++j) fetch(j, j);
                NO_UNROLL for (int s0 = 0; s0 < taps[2]; s0 += P) UNROLL for (int u = 0; u < P; ++u) {
                    if (s0 + u >= taps[2]) break;
                    fetch(s0 + u + P - 1, (u + P - 1) % P);
                    float f[V];
                    Vec<float, V>::load(filter).get(f);
                    filter += wide;
                    UNROLL for (int j = 0; j < P; ++j) {
                        if (skip && !inside[(u + j) % P]) continue;
                        UNROLL for (int c = 0; c < V; ++c) acc[j][c] += f[c] * in[(u + j) % P][c];
                    }
                }
                continue;
            }
            NO_UNROLL for (int s = 0; s < taps[2]; ++s, filter += wide) {
                Vec<T, V> in[P];
                bool inside[P];
                UNROLL for (int j = 0; j < P; ++j) {
                    int z;
                    inside[j] = reads(2, q0 + j, s, z) && valid;
                    in[j] = {};
                    if (inside[j]) in[j] = Vec<T, V>::load_nc(row + z * x_s[2]);
                }
                float f[V];
                Vec<float, V>::load(filter).get(f);
                UNROLL for (int j = 0; j < P; ++j) {
                    if (skip && !inside[j]) continue;
                    UNROLL for (int c = 0; c < V; ++c) acc[j][c] += f[c] * to_acc(in[j][c]);
                }
            }
        }

    const i64 off = n * y_n + place[0] * y_s[0] + place[1] * y_s[1] + q0 * y_s[2] + channel;
    UNROLL for (int j = 0; j < P; ++j) {
        if (j > 0 && q0 + j >= width) break;                         // a strip begins inside
        T* p = y + off + j * y_s[2];
        float old[V] = {};
        if (beta != 0.f) Vec<T, V>::load(p).get(old);
        UNROLL for (int c = 0; c < V; ++c)
            acc[j][c] = beta != 0.f ? alpha * acc[j][c] + beta * old[c] : alpha * acc[j][c];
        fuse_epilogue(acc[j], off + j * y_s[2], channel);
        Vec<T, V>::of(acc[j]).store(p);
    }
}
