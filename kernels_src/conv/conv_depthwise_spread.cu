/*@kernel
name   = "conv_depthwise_spread_k{K}_{T}"
about  = """Data gradient of a depthwise convolution of channels-last images, filters of {K}x{K}, \
            stride 2: a thread walks down dy, and each row adds to the rows of dx that it meets."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
targets = ["sm_80"]
params = ["const T* dy", "const T* w", "T* dx", "float alpha", "float beta", "int channels", "int strips",
          "int rows", "FastDiv across", "FastDiv down", "Array<int, 2> out", "Array<int, 2> size",
          "Array<int, 2> pad", "int64_t dy_n", "Array<int64_t, 2> dy_s", "int64_t w_c",
          "Array<int64_t, 2> w_s", "int64_t dx_n", "Array<int64_t, 2> dx_s", "Fuse fuse"]
block  = [128, 1, 1]
grid   = ["ceil_div(strips, 8) * ceil_div(channels, 32)", 1, 1]
smem   = "K * K * 128 + 8 * ((5 if K == 3 else 1 + (K + 1) // 2) * (256 if sizeof(T) < 4 else 384) + 64)"
needs  = ["channels % (16 // sizeof(T)) == 0", "channels >= 1", "strips >= 1", "rows >= 1"]
marks  = ["epilogue"]
problems = ["conv_dgrad n2c40h11w13 k40r{K}s{K} pad={K // 2} stride=2 groups=40 {T} nhwc",
            """conv_dgrad n1c8h12w18 k8r{K}s{K} pre_pad=0,{K // 2 + 1} post_pad=1,0 stride=2 groups=8 \
               mode=convolution {T} nhwc"""]
@*/
// dx[h, w] = sum over r, s with h + pad - r and w + pad - s even of
//            w[r, s] * dy[(h + pad - r) / 2, (w + pad - s) / 2]
//
// With h + pad = 2m + a a row i of dy adds to the pairs of rows m = i + j through the taps r = 2j + a; pair m
// is complete after row m. The same along w, where a thread has WIDTH pairs. Pairs begin at pad / 2; `rows`
// pairs of a strip, `across` and `down` strips in each direction. `out`: dims of dx, `size`: of dy. What is
// outside dy is left out rather than multiplied by zero; along a row only by blocks that have an infinite
// filter, as for all others it is the same.
#include "conv/depthwise.cuh"

namespace cydnn {

constexpr int WIDTH = K == 3 ? 4 : 2, DEEP = (K + 1) / 2, IN = WIDTH + DEEP - 1;            // in pairs
constexpr int STAGES = sizeof(T) == 4 ? 3 : 4, ROW = Window<T, IN>::BYTES;

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* dy, const T* w, T* dx, float alpha, float beta, int channels, int strips, int rows,
    FastDiv across, FastDiv down, Array<int, 2> out, Array<int, 2> size, Array<int, 2> pad, i64 dy_n,
    Array<i64, 2> dy_s, i64 w_c, Array<i64, 2> w_s, i64 dx_n, Array<i64, 2> dx_s, Fuse fuse) {
    extern __shared__ __align__(16) char memory[];
    float* filters = reinterpret_cast<float*>(memory);
    char* ring = memory + K * K * WIDE * 4 + threadIdx.x / LANES * (STAGES * ROW + 64);
    const unsigned blocks_c = ceil_div(channels, WIDE);
    const int first = blockIdx.x % blocks_c * WIDE, lane = threadIdx.x % LANES, channel = first + lane * PAIR;
    const bool is_odd = stage_filters<K>(filters, w, first, channels, w_c, w_s);

    const unsigned unit = blockIdx.x / blocks_c * UNITS + threadIdx.x / LANES;
    const bool is_strip = unit < unsigned(strips);                   // the others walk along over zeros
    unsigned strip, chunk;
    const i64 n = down.divmod(across.divmod(is_strip ? unit : 0, strip), chunk);
    const int v0 = pad[1] / 2 + strip * WIDTH, m0 = pad[0] / 2 + chunk * rows, steps = rows + DEEP - 1;
    const int left = v0 - (DEEP - 1), top = m0 - (DEEP - 1);
    const int m1 = is_strip && channel < channels ? m0 + rows : 0;
    const int count = max(m1 - m0, 0);                               // pairs; sums of others are not made
    const Window<T, IN> window(dy + n * dy_n, top, left, is_strip ? size[0] : 0, size[1], first, channels,
                               dy_s);
    const unsigned columns = columns_inside<IN>(left, size[1]), to = shared_address(ring);
    auto bring = [&](int step, int slot) {
        if (step < steps) window.bring(step, to + slot * ROW);
        cp_async_commit();
    };
    UNROLL for (int k = 0; k < STAGES - 1; ++k) bring(k, k);
    const bool skips = __syncthreads_or(is_odd);                     // the filters are there
    const float* filter = filters + lane * PAIR;
    const i64 off = n * dx_n + channel;

    float sums[DEEP][2][2 * WIDTH][PAIR] = {};                       // [m - i][a][2 * pair + b]
    int slot = 0;
    NO_UNROLL for (int k = 0; k < steps; ++k) {
        cp_async_wait<STAGES - 2>();
        __syncwarp();
        bring(k + STAGES - 1, slot == 0 ? STAGES - 1 : slot - 1);
        if (window.is_inside(k)) {
            float values[IN][PAIR];
            read_row<T>(ring + slot * ROW, values);
            auto add = [&](auto is_edge, auto is_end) {
                UNROLL for (int r = 0; r < K; ++r) {
                    if (is_end.value && unsigned(k + r / 2 - (DEEP - 1)) >= unsigned(count)) continue;
                    UNROLL for (int s = 0; s < K; ++s) {
                        float f[PAIR];
                        Vec<float, PAIR>::load(filter + (r * K + s) * WIDE).get(f);
                        UNROLL for (int i = 0; i < WIDTH; ++i) {
                            const int column = i + DEEP - 1 - s / 2;
                            if (is_edge.value && !(columns >> column & 1)) continue;
                            UNROLL for (int c = 0; c < PAIR; ++c)
                                sums[r / 2][r % 2][2 * i + s % 2][c] += f[c] * values[column][c];
                        }
                    }
                }
            };
            if (skips && columns != (1u << IN) - 1) add(Is<true>(), Is<true>());
            else if (K > 3 && (k < DEEP - 1 || k >= count)) add(Is<false>(), Is<true>());
            else add(Is<false>(), Is<false>());
        }
        slot = slot == STAGES - 1 ? 0 : slot + 1;
        const int m = top + k;
        UNROLL for (int a = 0; a < 2; ++a) {
            const int h = 2 * m + a - pad[0];
            if (m < m0 || m >= m1 || unsigned(h) >= unsigned(out[0])) continue;
            UNROLL for (int i = 0; i < 2 * WIDTH; ++i) {
                const int column = 2 * v0 + i - pad[1];
                if (unsigned(column) < unsigned(out[1]))
                    store_pair(dx, off + h * dx_s[0] + column * dx_s[1], sums[0][a][i], alpha, beta, channel);
            }
        }
        UNROLL for (int j = 0; j < DEEP; ++j)
            UNROLL for (int a = 0; a < 2; ++a)
                UNROLL for (int i = 0; i < 2 * WIDTH; ++i)
                    UNROLL for (int c = 0; c < PAIR; ++c)
                        sums[j][a][i][c] = j + 1 < DEEP ? sums[j + 1][a][i][c] : 0.f;
    }
}
