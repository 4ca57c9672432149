/*@kernel
name   = "conv_depthwise_planes_spread_k{K}_{T}"
about  = """Data gradient of a depthwise convolution of NCHW images, filters of {K}x{K}, stride 2: planes \
            of dy lie in shared memory, and each row adds to the rows of dx that it meets."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
targets = ["sm_80"]
params = ["const T* dy", "const T* w", "T* dx", "float alpha", "float beta", "int planes", "int group",
          "int strips", "int rows", "FastDiv bands", "FastDiv pairs", "FastDiv of_strips",
          "FastDiv channels", "Array<int, 2> out", "Array<int, 2> size", "Array<int, 2> pad", "int64_t w_c",
          "Array<int64_t, 2> w_s"]
block  = [128, 1, 1]
grid   = ["ceil_div(planes, group) * bands", 1, 1]
smem   = "stage_bytes"
extra  = ["stage_bytes"]
needs  = ["planes >= 1", "group >= 1", "strips >= 1", "rows >= 1", "of_strips == strips",
          "pairs == ceil_div(out[1], 2)", "group == 1 or bands == 1 and group * strips * pairs <= 128",
          "bands * strips * rows * 2 >= out[0] + pad[0] % 2",
          """stage_bytes >= 96 + {sizeof(T)} * size[1] * (group * size[0] if group > 1 else \
             min(size[0], strips * rows + {K // 2}))"""]
problems = ["conv_dgrad n1c1h8w263 k1r{K}s{K} pad={K // 2} stride=2 groups=1 {T}",
            "conv_dgrad n2c5h11w13 k5r{K}s{K} pad={K // 2} stride=2 groups=5 {T}",
            """conv_dgrad n1c3h12w18 k3r{K}s{K} pre_pad=0,{K // 2 + 1} post_pad=1,0 stride=2 groups=3 \
               mode=convolution {T}""",
            "conv_dgrad n1c3h12w13 k3r{K}s{K} pre_pad=0,{K // 2 + 1} post_pad=1,0 stride=2 groups=3 {T}",
            "conv_dgrad n1c3h12w18 k3r{K}s{K} pad={K // 2} stride=2 groups=3 {T}"]
@*/
// dx[h, w] = sum over r, s with h + pad - r and w + pad - s even of
//            w[r, s] * dy[(h + pad - r) / 2, (w + pad - s) / 2]
//
// With h + pad = 2m + a a row i of dy adds to the pairs of rows m = i + j through the taps r = 2j + a; pair m
// is complete after row m. Pairs of rows begin at pad / 2; `rows` of them are a strip. Pairs of columns begin
// at 0, so that both are one access: where pad is odd the first of them has a = 1, and the second belongs to
// the next v. `out`: dims of dx, `size`: of dy. What is outside dy is left out rather than multiplied by zero
// (which matters for infinite filters only).
#include "conv/depthwise_planes.cuh"

namespace cydnn {

constexpr int DEEP = (K + 1) / 2, IN = DEEP + 1, LAST = DEEP - 1;

// Two columns from w = 2 * pair on of the pairs of rows m0 to before m1, of one plane. ODD: pad[1] is.
template <bool ODD>
DEVICE void spread(const Staged<T>& staged, int plane, const float (&f)[K][K], T* dx, float alpha, float beta,
                   int pair, int m0, int m1, const Array<int, 2>& out, const Array<int, 2>& pad, int width) {
    const int left = pair + pad[1] / 2 - LAST, column = 2 * pair, steps = m1 - m0 + LAST;
    const Columns<IN> columns(left, width);
    const bool second = column + 1 < out[1], by_two = out[1] % 2 == 0;
    int row = m0 - LAST, h = 2 * row - pad[0];
    const T* line = staged.row(plane, row) + columns.first;

    float sums[DEEP][2][2] = {};                     // of m0 + k + j - LAST: [(k + j + 1) % DEEP]
    NO_UNROLL for (int k0 = 0; k0 < steps; k0 += DEEP)
        UNROLL for (int d = 0; d < DEEP; ++d, ++row, line += width, h += 2) {
            if (k0 + d >= steps) break;
            if (row >= 0 && row < staged.end) {
                float v[IN];
                columns.read(line, v);
                UNROLL for (int r = 0; r < K; ++r)
                    UNROLL for (int s = 0; s < K; ++s) {
                        const int i = ODD ? 1 - s % 2 : s % 2, at = LAST - s / 2 + (ODD && i == 1);
                        if (columns.keep[at]) sums[(d + r / 2 + 1) % DEEP][r % 2][i] += f[r][s] * v[at];
                    }
            }
            float(&done)[2][2] = sums[(d + 1) % DEEP];
            UNROLL for (int a = 0; a < 2; ++a) {
                if (k0 + d >= LAST && unsigned(h + a) < unsigned(out[0]))
                    store_columns(dx + i64(h + a) * out[1] + column, done[a], alpha, beta, second, by_two);
                done[a][0] = 0.f, done[a][1] = 0.f;
            }
        }
}

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* dy, const T* w, T* dx, float alpha, float beta, int planes, int group, int strips, int rows,
    FastDiv bands, FastDiv pairs, FastDiv of_strips, FastDiv channels, Array<int, 2> out,
    Array<int, 2> size, Array<int, 2> pad, i64 w_c, Array<i64, 2> w_s) {
    extern __shared__ __align__(16) char memory[];
    const PlaneCut cut = {planes, group, strips, rows, bands, pairs, of_strips, out, size};
    const PlaneBlock block(blockIdx.x, cut);
    const int from = pad[0] / 2 + block.band * strips * rows, all = (out[0] - 1 + pad[0]) / 2 + 1;
    const int items = block.planes * strips * int(pairs.by);
    const unsigned mine = of_strips.div(pairs.div(min(int(threadIdx.x), items - 1)));
    float f[K][K];
    filter_of<K>(f, w + channels.mod(unsigned(block.plane) + mine) * w_c, w_s);
    const Staged<T> staged(memory, dy, block, cut, from - LAST, min(from + strips * rows, all));
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    T* plane = dx + (block.plane + mine) * (i64(out[0]) * out[1]);
    NO_UNROLL for (int item = threadIdx.x; item < items; item += THREADS) {
        unsigned pair, strip;
        of_strips.divmod(pairs.divmod(item, pair), strip);
        const int m0 = from + strip * rows, m1 = min(m0 + rows, all);
        if (m0 >= m1) continue;
        if (pad[1] % 2) spread<true>(staged, mine, f, plane, alpha, beta, pair, m0, m1, out, pad, size[1]);
        else spread<false>(staged, mine, f, plane, alpha, beta, pair, m0, m1, out, pad, size[1]);
    }
}
