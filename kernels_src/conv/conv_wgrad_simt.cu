/*@kernel
name   = "conv_wgrad_simt_{T}_{TILE}_{FORM}"
about  = """Filter gradient as implicit GEMM on CUDA cores: (channel, tap) x filters, summed over pixels; \
            the pixels may be split. Any strides, groups, dilation. FORM: how the splits are added, \
            and whether what belongs to a pixel is computed or looked up."""
T      = ["f32", "f64", "f16", "bf16"]
TILE   = ["t128x128", "t128x64", "t64x64", "t32x32", "a128x256", "a128x128"]
FORM   = ["ordered", "atomic", "indexed"]
targets = ["sm_75", "sm_80"]
when   = ["FORM == 'ordered' or TILE != 't128x64'",
          "(sm >= 80) == (TILE == 'a128x256' or TILE == 'a128x128')",
          "sm < 80 or T == 'f32' and FORM == 'ordered'"]
params = ["const T* x", "const T* dy", "T* dw", "Acc_T* parts", "Acc_T alpha", "Acc_T beta",
          "int rows", "int filters", "int pixels", "int split_pixels", "int groups",
          "int flags", "int channel_inner",
          "Array<FastDiv, 3> out", "Array<FastDiv, 3> digit", "Array<int, 3> size", "Array<int, 3> stride",
          "Array<int, 3> pad", "Array<int, 3> dilation",
          "int64_t x_n", "int64_t x_group", "int64_t x_c", "Array<int64_t, 3> x_s",
          "int64_t dy_n", "int64_t dy_k", "Array<int64_t, 3> dy_s",
          "int64_t dw_k", "int64_t dw_c", "Array<int64_t, 3> dw_s",
          "const int* index"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * groups * splits", 1, 1]
extra  = ["tiles_m", "tiles_n", "splits"]
smem   = "{75264 if TILE == 'a128x256' else 50688 if TILE == 'a128x128' else 0}"
needs  = ["rows >= 1", "filters >= 1", "tiles_m * tiles_n * groups * splits < 2147483648"]
problems = ["conv_wgrad n0c5h5w6 k7r3s2 {T}",
            "conv_wgrad n2c8h4w4 k8r1s1 {T}",
            "conv_wgrad n2c8h5w6 k8r3s3 {T} nhwc",
            "conv_wgrad n2c6h6w6 k10r3s3 dil2 pad2 groups=2 {T} nhwc",
            """conv_wgrad n2c3d4h6w7 k5t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 stride=1,2,1 dilation=2,1,3 \
               mode=convolution {T}""",
            "conv_wgrad n1c30h5w6 k{80 if TILE == 't32x32' else 264}r3s3 pad1 groups=2 {T}"]
@*/
// A block makes one tile of rows (channel and tap of a group) x filters of the group, over `split_pixels`
// pixels (n, o, p, q). dw_s is negative and dw begins at the last tap where the filter is flipped.
//   ordered   with one split (parts is null) it blends into dw; else the sums go to
//             parts[split][filter][row], which conv_wgrad_simt_sum adds up in the order of the splits
//   atomic    every block adds alpha * sum to parts, which has dw's shape and the strides dw_k, dw_c, dw_s
//   indexed   the same; where a pixel of an image lies comes from conv_wgrad_index, and out is (1, 1, pixels)
#include "conv/gather_async.cuh"

namespace cydnn {
enum WgradForm { ordered, atomic, indexed };
}

extern "C" __global__ __launch_bounds__(256, simt_blocks<T, TILE>()) void KERNEL(
    const T* x, const T* dy, T* dw, acc_t<T>* parts, acc_t<T> alpha, acc_t<T> beta, int rows, int filters,
    int pixels, int split_pixels, int groups, int flags, int channel_inner, Array<FastDiv, 3> out,
    Array<FastDiv, 3> digit, Array<int, 3> size, Array<int, 3> stride, Array<int, 3> pad,
    Array<int, 3> dilation, i64 x_n, i64 x_group, i64 x_c, Array<i64, 3> x_s, i64 dy_n, i64 dy_k,
    Array<i64, 3> dy_s, i64 dw_k, i64 dw_c, Array<i64, 3> dw_s, const int* index) {
    using S = Simt<T, TILE>;
    extern __shared__ uint4 dynamic[];
    __shared__ typename S::Static fixed;
    auto& tiles = S::shared(fixed, dynamic);
    __shared__ Taps taps;
    __shared__ i64 dw_off[S::m];

    const unsigned tiles_n = ceil_div(filters, S::n), tiles_m = ceil_div(rows, S::m);
    const unsigned row0 = blockIdx.x / tiles_n % tiles_m * S::m;
    const int col0 = blockIdx.x % tiles_n * S::n;
    const unsigned rest = blockIdx.x / tiles_n / tiles_m;
    const int group = rest % groups, split = rest / groups;
    const i64 begin = i64(split) * split_pixels;

    if (threadIdx.x < S::m) {
        int c, t[3];
        channel_and_tap(row0 + threadIdx.x, digit[0], digit[1], digit[2], channel_inner, c, t);
        dw_off[threadIdx.x] = c * dw_c + t[0] * dw_s[0] + t[1] * dw_s[1] + t[2] * dw_s[2];
    }
    auto corner = [&](int row, int (&z)[3]) {                      // the tap's shift; off has the channel
        int c;
        channel_and_tap(row0 + row, digit[0], digit[1], digit[2], channel_inner, c, z);
        i64 off = c * x_c + group * x_group;
        UNROLL for (int i = 0; i < 3; ++i) z[i] *= dilation[i], off += z[i] * x_s[i];
        if (row0 + row >= unsigned(rows)) z[0] = NOWHERE;
        return off;
    };
    dy += i64(group * filters + col0) * dy_k;
    int first[4];                                   // offsets in the table count from the split's first image
    digits_of(unsigned(begin), out[2], out[1], out[0], first);
    x += first[3] * x_n, dy += first[3] * dy_n;

    auto entry = [&](unsigned pixel, Tap& tap, int& plain) {
        int v[4];                                                  // q p o n
        digits_of(pixel, out[2], out[1], out[0], v);
        tap.off = (v[3] - first[3]) * int(x_n), plain = (v[3] - first[3]) * int(dy_n);
        if constexpr (FORM == indexed) {
            const Tap at = reinterpret_cast<const Tap*>(index)[v[0]];
            UNROLL for (int i = 0; i < 3; ++i) tap.z[i] = at.z[i];
            tap.off += at.off, plain += index[4 * out[2].by + v[0]];
            const int next = v[0] + TABLE;
            if (next < int(out[2].by)) prefetch(index + 4 * next), prefetch(index + 4 * out[2].by + next);
            return;
        }
        UNROLL for (int i = 0; i < 3; ++i) {
            tap.z[i] = v[2 - i] * stride[i] - pad[i];
            tap.off += tap.z[i] * int(x_s[i]), plain += v[2 - i] * int(dy_s[i]);
        }
    };
    typename S::Sum acc[S::FM][S::FN];
    const i64 end = min(begin + split_pixels, i64(pixels));
    gather_multiply_rows<S>(tiles, taps, x, corner, size, dy, dy_k, filters - col0, flags, int(begin),
                            int(end), entry, acc);

    auto emit = [&](int row, int col, typename S::Sum sum) {
        if (row0 + row >= unsigned(rows) || col0 + col >= filters) return;
        const i64 filter = i64(group) * filters + col0 + col;
        if constexpr (FORM != ordered) {
            atomicAdd(parts + filter * dw_k + dw_off[row], alpha * sum);
            return;
        }
        if (parts) {
            parts[(i64(split) * groups * filters + filter) * rows + row0 + row] = sum;
            return;
        }
        T* p = dw + filter * dw_k + dw_off[row];
        *p = from_acc<T>(blend(alpha, sum, beta, p));
    };
    S::drain(tiles, acc, true, emit);
}
