/*@kernel
name   = "conv_fft_columns_{T}"
about  = "Complex transforms along a dim that is not the innermost, forward or inverse; ends may be left out."
T      = ["f32", "f64"]
params = ["const T* from", "T* to", "int n", "int stages", "Array<int, 6> radix", "Array<FastDiv, 6> part",
          "int live", "int keep", "int inverse", "int outer", "int inner", "FastDiv groups"]
block  = [128, 1, 1]
grid   = ["min(blocks, outer * groups)", 1, 1]
smem   = "n * 17 * 2 * (8 if T == f64 else 4)"
extra  = ["blocks"]
needs  = ["n >= 2", "n <= 256", "live <= n", "keep <= n", "groups == ceil_div(inner, 16)",
          "outer * groups < 2147483648"]
problems = ["conv_fprop n3c3h5w6 k4r3s2 pad1 {T}",
            "conv_wgrad n2c2h9w4 k3r3s2 {T}",
            "conv_dgrad n1c3d2h3w5 k2t2r2s3 mode=convolution {T}",
            "conv_fprop n1c1h64w1 k1r7s1 {T}",
            "conv_fprop n1c2h25w1 k1r2s1 {T}",
            "conv_fprop n1c9h16w3 k1r2s2 {T}",
            "conv_fprop n1c3h2w3 k2r1s1 {T}"]
@*/
// to[outer][u][inner], u < keep, of from[outer][u][inner], u < live: complex numbers; behind `live` they
// are 0. The inverse transform is not divided by n.
#include "conv/fft.cuh"

extern "C" __global__ __launch_bounds__(FFT_THREADS, sizeof(T) == 8 ? 6 : 9) void KERNEL(
    const T* from, T* to, int n, int stages, Array<int, 6> radix, Array<FastDiv, 6> part, int live, int keep,
    int inverse, int outer, int inner, FastDiv groups) {
    __shared__ FftTables<T> tables;
    extern __shared__ __align__(16) unsigned char dynamic[];
    auto tile = reinterpret_cast<Complex<T>*>(dynamic);
    __builtin_assume(stages > 0);
    fft_tables(tables, n, stages, radix, part);
    const unsigned items = unsigned(outer) * groups.by;
    NO_UNROLL for (unsigned item = blockIdx.x; item < items; item += gridDim.x) {
        unsigned group;
        const i64 line = groups.divmod(item, group);
        const i64 at = i64(group) * FFT_LANES + threadIdx.x % FFT_LANES;
        const bool valid = at < inner;
        auto in = reinterpret_cast<const Complex<T>*>(from) + line * live * inner + at;
        auto out = reinterpret_cast<Complex<T>*>(to) + line * keep * inner + at;
        __syncthreads();                      // tables are there, the tile of the item before is done with
        fft_through(tables, tile, n, stages,
                [&](int u) {
                    const Complex<T> z = u < live && valid ? in[i64(u) * inner] : Complex<T>{0, 0};
                    return inverse ? exchanged(z) : z;
                },
                [&](int place, Complex<T> z) {
                    const int f = tables.order[place];
                    if (f < keep && valid) out[i64(f) * inner] = inverse ? exchanged(z) : z;
                });
    }
}
