/*@kernel
name   = "conv_depthwise_wgrad_{T}"
about  = """Filter gradient of a depthwise convolution of channels-last tensors: \
            sums over a range of pixels, for conv_wgrad_simt_sum to add up."""
T      = ["f32", "f16", "bf16"]
params = ["const T* x", "const T* dy", "float* parts", "int channels", "int pixels", "int split_pixels",
          "Array<FastDiv, 3> out", "Array<int, 3> size", "Array<int, 3> taps", "Array<int, 3> stride",
          "Array<int, 3> pad", "Array<int, 3> dilation", "int64_t x_n", "Array<int64_t, 3> x_s",
          "int64_t dy_n", "Array<int64_t, 3> dy_s"]
block  = [256, 1, 1]
grid   = ["ceil_div(channels, 256 // sizeof(T)) * splits", 1, 1]
extra  = ["splits"]
needs  = ["channels % (16 // sizeof(T)) == 0", "channels >= 1"]
problems = ["conv_wgrad n2c24h9w9 k24r3s3 pad1 stride2 groups=24 {T} nhwc",
            """conv_wgrad n2c{256 // sizeof(T) + 8}d4h5w6 k{256 // sizeof(T) + 8}t2r3s4 pre_pad=1,0,2 \
               post_pad=0,2,1 stride=1,2,1 dilation=2,1,1 groups={256 // sizeof(T) + 8} {T} nhwc"""]
@*/
// A block takes 256 bytes of channels x split_pixels pixels (n, o, p, q): 16 threads along the channels x 16
// along the pixels. A pass sums three taps of one filter row, so that dy is read and the pixel decoded once
// for them; later passes find both tensors in the caches. The 16 partial sums of a tap are added in order and
// go to parts[split][channel][tap].
#include "lib/math.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, const T* dy, float* parts, int channels, int pixels, int split_pixels, Array<FastDiv, 3> out,
    Array<int, 3> size, Array<int, 3> taps, Array<int, 3> stride, Array<int, 3> pad, Array<int, 3> dilation,
    i64 x_n, Array<i64, 3> x_s, i64 dy_n, Array<i64, 3> dy_s) {
    constexpr int V = 16 / sizeof(T), wide = 16 * V, G = 3;
    __shared__ __align__(16) float sums[16][wide];
    const unsigned blocks_c = ceil_div(channels, wide);
    const int first = blockIdx.x % blocks_c * wide, lane = threadIdx.x % 16, line = threadIdx.x / 16;
    const i64 split = blockIdx.x / blocks_c;
    const i64 begin = split * split_pixels, end = min(begin + split_pixels, i64(pixels));
    const int all_taps = taps[0] * taps[1] * taps[2], mine = first + threadIdx.x;
    const bool is_channel = first + lane * V < channels;
    x += first + lane * V, dy += first + lane * V;

    for (int t = 0; t < taps[0]; ++t)
        for (int r = 0; r < taps[1]; ++r)
            for (int s = 0; s < taps[2]; s += G) {
                float acc[G][V] = {};
                if (is_channel) {
                    _Pragma("unroll 2") for (i64 i = begin + line; i < end; i += 16) {
                        unsigned n = unsigned(i), place[3];
                        UNROLL for (int j = 2; j >= 0; --j) n = out[j].divmod(n, place[j]);
                        const int d = int(place[0]) * stride[0] - pad[0] + t * dilation[0];
                        const int h = int(place[1]) * stride[1] - pad[1] + r * dilation[1];
                        const bool valid = unsigned(d) < unsigned(size[0]) && unsigned(h) < unsigned(size[1]);
                        const auto g = Vec<T, V>::load_nc(dy + n * dy_n + place[0] * dy_s[0] +
                                                          place[1] * dy_s[1] + place[2] * dy_s[2]);
                        const T* row = x + n * x_n + d * x_s[0] + h * x_s[1];
                        UNROLL for (int j = 0; j < G; ++j) {
                            const int z = int(place[2]) * stride[2] - pad[2] + (s + j) * dilation[2];
                            Vec<T, V> in = {};
                            if (valid && s + j < taps[2] && unsigned(z) < unsigned(size[2]))
                                in = Vec<T, V>::load_nc(row + z * x_s[2]);
                            UNROLL for (int c = 0; c < V; ++c) acc[j][c] += to_acc(g[c]) * to_acc(in[c]);
                        }
                    }
                }
                UNROLL for (int j = 0; j < G; ++j) {
                    if (s + j >= taps[2]) break;
                    __syncthreads();                              // the last tap's sums have been read
                    UNROLL for (int c = 0; c < V; ++c) sums[line][lane * V + c] = acc[j][c];
                    __syncthreads();
                    if (threadIdx.x < wide && mine < channels) {
                        float sum = 0.f;
                        UNROLL for (int l = 0; l < 16; ++l) sum += sums[l][threadIdx.x];
                        const i64 filter = split * channels + mine;
                        parts[filter * all_taps + (t * taps[1] + r) * taps[2] + s + j] = sum;
                    }
                }
            }
}
