/*@kernel
name   = "conv_depthwise_planes_wgrad_k{K}s{S}_{T}"
about  = """Filter gradient of a depthwise convolution of NCHW images, filters of {K}x{K}, stride {S}: \
            planes of x and dy lie in shared memory, all taps are sums of a thread; conv_wgrad_simt_sum adds \
            up the parts."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
S      = [1, 2]
targets = ["sm_80"]
params = ["const T* x", "const T* dy", "float* parts", "int images", "int part_images", "int channels",
          "int group", "int strips", "int rows", "FastDiv bands", "FastDiv channel_groups", "FastDiv pairs",
          "FastDiv of_strips", "Array<int, 2> out", "Array<int, 2> size", "Array<int, 2> pad", "int x_bytes",
          "int stage_bytes"]
block  = [128, 1, 1]
grid   = ["bands * channel_groups * ceil_div(images, part_images)", 1, 1]
smem   = "max(2 * stage_bytes, 512 * K * K)"
needs  = ["images >= 1", "part_images >= 1", "group >= 1", "strips >= 1", "rows >= 1", "of_strips == strips",
          "pairs == ceil_div(out[1], 2)", "group == 1 or bands == 1 and group * strips * pairs <= 128",
          "channel_groups == ceil_div(channels, group)", "bands * strips * rows >= out[0]",
          "x_bytes % 16 == 0", "stage_bytes % 16 == 0",
          """x_bytes >= 96 + {sizeof(T)} * size[1] * (group * size[0] if group > 1 else \
             min(size[0], (strips * rows - 1) * {S} + {K}))""",
          """stage_bytes >= x_bytes + 96 + {sizeof(T)} * out[1] * (group * out[0] if group > 1 else \
             min(out[0], strips * rows))"""]
problems = ["conv_wgrad n3c5h{11 * S}w13 k5r{K}s{K} pad={K // 2} stride={S} groups=5 {T}",
            """conv_wgrad n1c3h9w18 k3r{K}s{K} pre_pad=0,{K // 2} post_pad=1,{K // 2} stride={S} groups=3 \
               mode=convolution {T}""",
            "conv_wgrad n9c1h{6 + 2 * S}w{260 * S + 3} k1r{K}s{K} pad={K // 2} stride={S} groups=1 {T}",
            "conv_wgrad n9c33h4w4 k33r{K}s{K} pad={K // 2} stride={S} groups=33 {T}"]
@*/
// A block has `group` channels, or a band of one, of `part_images` images one after the other; the next is on
// its way while one is walked through. A thread keeps the rows of x that a row of dy meets. Its sums go to
// parts[part][channel][tap], a part for each band of each range of images. x_bytes: of x in a stage, dy lies
// behind it.
#include "conv/depthwise_planes.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, const T* dy, float* parts, int images, int part_images, int channels, int group, int strips,
    int rows, FastDiv bands, FastDiv channel_groups, FastDiv pairs, FastDiv of_strips, Array<int, 2> out,
    Array<int, 2> size, Array<int, 2> pad, int x_bytes, int stage_bytes) {
    extern __shared__ __align__(16) char memory[];
    constexpr int IN = S + K;
    unsigned band, of_channels;
    const int part = channel_groups.divmod(bands.divmod(blockIdx.x, band), of_channels);
    const int channel = of_channels * group, planes = min(group, channels - channel);
    const int all = images * channels, from = band * strips * rows, until = min(from + strips * rows, out[0]);
    const PlaneCut cut = {all, group, strips, rows, bands, pairs, of_strips, out, size};
    const PlaneCut cut_dy = {all, group, strips, rows, bands, pairs, of_strips, out, out};
    const int n0 = part * part_images, n1 = min(n0 + part_images, images);
    auto bring = [&](int n, char* stage, Staged<T>& of_x, Staged<T>& of_dy) {
        const PlaneBlock block(i64(n) * channels + channel, planes, band);
        of_x = Staged<T>(stage, x, block, cut, from * S - pad[0], (until - 1) * S - pad[0] + K);
        of_dy = Staged<T>(stage + x_bytes, dy, block, cut_dy, from, until);
    };
    Staged<T> x_now, dy_now, x_next, dy_next;
    bring(n0, memory, x_now, dy_now);
    cp_async_commit();
    const int items = planes * strips * int(pairs.by);
    float sums[K][K] = {};
    NO_UNROLL for (int n = n0; n < n1; ++n) {
        if (n + 1 < n1) bring(n + 1, memory + ((n + 1 - n0) % 2 ? stage_bytes : 0), x_next, dy_next);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        NO_UNROLL for (int item = threadIdx.x; item < items; item += THREADS) {
            unsigned pair, strip;
            const int mine = of_strips.divmod(pairs.divmod(item, pair), strip), q = pair * 2;
            const int p0 = from + strip * rows, p1 = min(p0 + rows, out[0]);
            const Columns<IN> columns(q * S - pad[1], size[1]);
            const bool second = q + 1 < out[1];
            const T* gradients = dy_now.row(mine, p0) + q;
            int row = p0 * S - pad[0];
            const T* line = x_now.row(mine, row) + columns.first;
            float v[K][IN] = {};                                     // row p * S - pad + r: [(p * S + r) % K]
            auto next = [&](float(&to)[IN]) {
                UNROLL for (int i = 0; i < IN; ++i) to[i] = 0.f;
                if (unsigned(row) < unsigned(x_now.end)) columns.read(line, to);
                ++row, line += size[1];
            };
            UNROLL for (int r = 0; r < K - S; ++r) next(v[r]);
            NO_UNROLL for (int k0 = p0; k0 < p1; k0 += K)
                UNROLL for (int d = 0; d < K; ++d, gradients += out[1]) {
                    if (k0 + d >= p1) break;
                    UNROLL for (int r = K - S; r < K; ++r) next(v[(d * S + r) % K]);
                    const float g[2] = {to_acc(gradients[0]), to_acc(gradients[1])};
                    UNROLL for (int r = 0; r < K; ++r)
                        UNROLL for (int s = 0; s < K; ++s) {
                            const float(&of)[IN] = v[(d * S + r) % K];
                            sums[r][s] += g[0] * of[s];
                            if (second) sums[r][s] += g[1] * of[S + s];
                        }
                }
        }
        x_now = x_next, dy_now = dy_next;
        __syncthreads();
    }

    float(*shared)[K * K] = reinterpret_cast<float(*)[K * K]>(memory);               // [thread][tap]
    UNROLL for (int t = 0; t < K * K; ++t) shared[threadIdx.x][t] = sums[t / K][t % K];
    __syncthreads();
    const int each = cut.is_whole() ? strips * int(pairs.by) : THREADS;              // threads of a channel
    NO_UNROLL for (int i = threadIdx.x; i < planes * K * K; i += THREADS) {
        const int of = i / (K * K), tap = i % (K * K);
        float sum = 0.f;
        _Pragma("unroll 8") for (int t = of * each; t < (of + 1) * each; ++t) sum += shared[t][tap];
        parts[((i64(part) * bands.by + band) * channels + channel + of) * K * K + tap] = sum;
    }
}
