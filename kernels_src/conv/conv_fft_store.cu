/*@kernel
name   = "conv_fft_store_{T}"
about  = "Rows back from half of their frequencies, blended into the windows of a tensor."
T      = ["f32", "f64", "f16", "bf16"]
params = ["const Acc_T* from", "T* y", "Acc_T alpha", "Acc_T beta", "Acc_T scale", "int n", "int stages",
          "Array<int, 6> radix", "Array<FastDiv, 6> part", "int rows_d", "int rows_h", "FastDiv keep",
          "FastDiv pairs", "FastDiv groups", "FastDiv inner", "int inner_live", "int planes",
          "int channel_inner", "Array<FastDiv, 3> tiles", "Array<int, 3> step", "Array<int, 3> base",
          "Array<int, 3> size", "int64_t x_n", "int64_t x_c", "Array<int64_t, 3> x_s"]
block  = [128, 1, 1]
grid   = ["min(blocks, rows_d * pairs * groups)", 1, 1]
smem   = "n * 17 * 2 * (8 if T == f64 else 4)"
extra  = ["blocks"]
needs  = ["n >= 1", "n <= 256", "keep <= n", "pairs == ceil_div(rows_h, 2)", "groups == ceil_div(planes, 16)",
          "planes % 2 == 0", "rows_d * pairs * groups < 2147483648"]
problems = ["conv_fprop n1c16h48w3 k16r3s2 pad1 {T}",
            "conv_fprop n3c3h5w6 k4r3s2 pad1 {T}",
            "conv_wgrad n2c2h9w4 k3r3s2 {T}",
            "conv_dgrad n1c3d2h3w5 k2t2r2s3 mode=convolution {T}",
            "conv_fprop n2c2h5w58 k2r3s5 pad1 {T} nhwc",
            "conv_fprop n1c1h3w10 k1r2s2 {T}",
            "conv_fprop n1c1h3w1 k1r2s1 {T}"]
@*/
// from[k][d][h][plane], k <= n/2, as conv_fft_rows writes it; rows h and h+1 of a plane come back as the two
// parts of one complex signal: Z[k] = A[k] + iB[k], Z[n-k] = conj A[k] + i conj B[k]. Pixels 0 to keep-1 of a
// window are stored where the tensor has them. The inverse transform exchanges re and im on both sides.
#include "conv/fft.cuh"

extern "C" __global__ __launch_bounds__(FFT_THREADS, sizeof(T) == 8 ? 6 : 10) void KERNEL(
    const acc_t<T>* from, T* y, acc_t<T> alpha, acc_t<T> beta, acc_t<T> scale, int n, int stages,
    Array<int, 6> radix, Array<FastDiv, 6> part, int rows_d, int rows_h, FastDiv keep, FastDiv pairs,
    FastDiv groups, FastDiv inner, int inner_live, int planes, int channel_inner, Array<FastDiv, 3> tiles,
    Array<int, 3> step, Array<int, 3> base, Array<int, 3> size, i64 x_n, i64 x_c, Array<i64, 3> x_s) {
    using Real = acc_t<T>;
    __shared__ FftTables<Real> tables;
    __shared__ FftLine lines[2 * FFT_LANES];                       // row 0 and 1 of plane 0, of plane 1, …
    extern __shared__ __align__(16) unsigned char dynamic[];
    auto tile = reinterpret_cast<Complex<Real>*>(dynamic);
    auto numbers = reinterpret_cast<const Real*>(dynamic);
    fft_tables(tables, n, stages, radix, part);
    const FftWindows windows = {int(inner.by), inner_live, channel_inner, planes, rows_h, step, base, size,
                                x_n, x_c, x_s};
    const unsigned items = unsigned(rows_d) * pairs.by * groups.by, lane = threadIdx.x % FFT_LANES;
    const int width = keep.by;

    NO_UNROLL for (unsigned item = blockIdx.x; item < items; item += gridDim.x) {
        unsigned group, pair;
        const int d = pairs.divmod(groups.divmod(item, group), pair);
        const unsigned plane0 = group * FFT_LANES, plane = plane0 + lane;
        const int h = 2 * pair;
        const bool valid = plane < unsigned(planes);
        __syncthreads();                                           // the tile of the item before is done with
        if (threadIdx.x < 2 * FFT_LANES)
            lines[threadIdx.x] = fft_line(windows, inner, tiles, plane0 + threadIdx.x / 2, d,
                                          h + threadIdx.x % 2, width);
        _Pragma("unroll 4") for (int k = threadIdx.x / FFT_LANES; k <= n / 2; k += FFT_THREADS / FFT_LANES) {
            const i64 row = (i64(k) * rows_d + d) * rows_h + h;
            auto in = reinterpret_cast<const Complex<Real>*>(from) + row * planes + plane;
            Complex<Real> a = {0, 0}, b = {0, 0};
            if (valid) a = in[0];
            if (valid && h + 1 < rows_h) b = in[planes];
            tile[k * FFT_PITCH + lane] = {a.im + b.re, a.re - b.im};
            if (k > 0 && 2 * k < n) tile[(n - k) * FFT_PITCH + lane] = {b.re - a.im, a.re + b.im};
        }
        __syncthreads();
        fft_inside(tables, tile, n, stages);
        _Pragma("unroll 2") for (int e = threadIdx.x; e < 2 * FFT_LANES * width; e += FFT_THREADS) {
            unsigned u;
            const int l = keep.divmod(e, u);
            const FftLine line = lines[l];
            if (int(u) < line.begin || int(u) >= line.end) continue;
            const Real value = numbers[(tables.place[u] * FFT_PITCH + l / 2) * 2 + 1 - l % 2] * scale;
            T* out = y + line.off + u * x_s[2];
            *out = from_acc<T>(blend(alpha, value, beta, out));
        }
    }
}
