/*@kernel
name   = "conv_fft_rows_{T}"
about  = "Transforms of the rows of a tensor's windows: half of the frequencies, the others are conjugates."
T      = ["f32", "f64", "f16", "bf16"]
params = ["const T* x", "Acc_T* to", "int n", "int stages", "Array<int, 6> radix", "Array<FastDiv, 6> part",
          "int rows_d", "int rows_h", "int live", "FastDiv pairs", "FastDiv groups", "FastDiv inner",
          "int inner_live", "int planes", "int channel_inner", "Array<FastDiv, 3> tiles",
          "Array<int, 3> step", "Array<int, 3> base", "Array<int, 3> size", "int64_t x_n", "int64_t x_c",
          "Array<int64_t, 3> x_s"]
block  = [128, 1, 1]
grid   = ["min(blocks, rows_d * pairs * groups)", 1, 1]
smem   = "n * 17 * 2 * (8 if T == f64 else 4)"
extra  = ["blocks"]
needs  = ["n >= 1", "n <= 256", "live <= n", "pairs == ceil_div(rows_h, 2)", "groups == ceil_div(planes, 16)",
          "planes % 2 == 0", "rows_d * pairs * groups < 2147483648"]
problems = ["conv_fprop n3c3h5w6 k4r3s2 pad1 {T}",
            "conv_wgrad n2c2h9w4 k3r3s2 {T}",
            "conv_dgrad n1c3d2h3w5 k2t2r2s3 mode=convolution {T}",
            "conv_fprop n2c2h5w58 k2r3s5 pad1 {T} nhwc",
            "conv_fprop n1c1h3w10 k1r2s2 {T}",
            "conv_fprop n1c1h3w1 k1r2s1 {T}"]
@*/
// to[k][d][h][plane], k <= n/2: the transform of row (d, h) of the window of each plane. Two rows of a plane
// are the two parts of one complex signal: with Z the transform of a + ib,
//     A[k] = (Z[k] + conj Z[n-k]) / 2,     B[k] = (Z[k] - conj Z[n-k]) / 2i.
// Lanes read pixels of a row, then go along planes: in shared memory, in `to`. What lies outside of the
// tensor is 0, so are planes that do not exist.
#include "conv/fft.cuh"

extern "C" __global__ __launch_bounds__(FFT_THREADS, sizeof(T) == 8 ? 6 : 9) void KERNEL(
    const T* x, acc_t<T>* to, int n, int stages, Array<int, 6> radix, Array<FastDiv, 6> part, int rows_d,
    int rows_h, int live, FastDiv pairs, FastDiv groups, FastDiv inner, int inner_live, int planes,
    int channel_inner, Array<FastDiv, 3> tiles, Array<int, 3> step, Array<int, 3> base, Array<int, 3> size,
    i64 x_n, i64 x_c, Array<i64, 3> x_s) {
    using Real = acc_t<T>;
    __shared__ FftTables<Real> tables;
    __shared__ FftLine lines[2 * FFT_LANES];                       // row 0 and 1 of plane 0, of plane 1, …
    extern __shared__ __align__(16) unsigned char dynamic[];
    auto tile = reinterpret_cast<Complex<Real>*>(dynamic);
    auto numbers = reinterpret_cast<Real*>(dynamic);
    fft_tables(tables, n, stages, radix, part);
    const FftWindows windows = {int(inner.by), inner_live, channel_inner, planes, rows_h, step, base, size,
                                x_n, x_c, x_s};
    const unsigned items = unsigned(rows_d) * pairs.by * groups.by, lane = threadIdx.x % FFT_LANES;
    constexpr int team = 8;                                        // threads that read a line: 32 bytes

    NO_UNROLL for (unsigned item = blockIdx.x; item < items; item += gridDim.x) {
        unsigned group, pair;
        const int d = pairs.divmod(groups.divmod(item, group), pair);
        const unsigned plane0 = group * FFT_LANES;
        if (threadIdx.x < 2 * FFT_LANES)
            lines[threadIdx.x] = fft_line(windows, inner, tiles, plane0 + threadIdx.x / 2, d,
                                          2 * pair + threadIdx.x % 2, live);
        __syncthreads();            // lines and tables are there, the tile of the item before is done with
        NO_UNROLL for (int l = threadIdx.x / team; l < 2 * FFT_LANES; l += FFT_THREADS / team) {
            const FftLine line = lines[l];
            const T* from = x + line.off;
            Real* to = numbers + l / 2 * 2 + l % 2;
            _Pragma("unroll 4") for (int u = threadIdx.x % team; u < live; u += team) {
                const bool inside = u >= line.begin && u < line.end;
                to[u * FFT_PITCH * 2] = inside ? to_acc(from[u * x_s[2]]) : Real(0);
            }
        }
        NO_UNROLL for (int e = live * FFT_LANES + threadIdx.x; e < n * FFT_LANES; e += FFT_THREADS)
            tile[e / FFT_LANES * FFT_PITCH + lane] = {0, 0};
        __syncthreads();
        fft_inside(tables, tile, n, stages);
        const unsigned plane = plane0 + lane;
        const int h = 2 * pair, first = plane < unsigned(planes) ? threadIdx.x / FFT_LANES : n;
        _Pragma("unroll 2") for (int k = first; k <= n / 2; k += FFT_THREADS / FFT_LANES) {
            const Complex<Real> z = tile[tables.place[k] * FFT_PITCH + lane];
            const Complex<Real> w = tile[tables.place[k ? n - k : 0] * FFT_PITCH + lane];
            const i64 row = (i64(k) * rows_d + d) * rows_h + h;
            auto out = reinterpret_cast<Complex<Real>*>(to) + row * planes + plane;
            out[0] = {(z.re + w.re) * Real(0.5), (z.im - w.im) * Real(0.5)};
            if (h + 1 < rows_h) out[planes] = {(z.im + w.im) * Real(0.5), (w.re - z.re) * Real(0.5)};
        }
    }
}
