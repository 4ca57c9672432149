/*@kernel
name   = "spatial_sampler_bwd_gather_{T}"
about  = """dx of bilinear sampling: a thread has a pixel and up to four channels, and adds up the points of \
            the four cells around it in order."""
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* dy", "T* dx", "const Acc_T* fractions", "const int* starts", "const int* order",
          "Acc_T alpha", "Acc_T beta", "int items", "FastDiv inner", "int channels_inner", "int channels",
          "int chunks", "FastDiv w", "int points", "FastDiv width", "FastDiv height",
          "Array<int64_t, 4> dy_strides", "Array<int64_t, 4> dx_strides"]
block  = [256, 1, 1]
grid   = ["ceil_div(items, 256)", 1, 1]
needs  = ["1 <= items < 2**31"]
problems = ["spatial_sampler_bwd x=2x5x7x6:{T} dy=2x5x9x5:{T} grid=2x9x5x2:{T}",
            """spatial_sampler_bwd x=2x19x3x2:{T}@nhwc dy=2x19x9x5:{T}@nhwc grid=2x9x5x2:{T} \
               dx=2x19x3x2:{T}@150,1,42,20""",
            "spatial_sampler_bwd x=1x1x33x35:{T} dy=1x1x2x3:{T} grid=1x2x3x2:{T}"]
@*/
#include "points.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dy, T* dx, const Acc_T* fractions, const int* starts, const int* order, Acc_T alpha, Acc_T beta,
    int items, FastDiv inner, int channels_inner, int channels, int chunks, FastDiv w, int points,
    FastDiv width, FastDiv height, Array<i64, 4> dy_strides, Array<i64, 4> dx_strides) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    const Places at = place_of(item, inner, channels_inner);
    unsigned row, column;
    const unsigned n = height.divmod(width.divmod(at.place, column), row);
    const int across = width.by + 1;                 // cells of a row
    starts += i64(n) * (i64(across) * (height.by + 1) + 1), order += i64(n) * points;
    fractions += i64(n) * points * 2, dy += n * dy_strides[0];
    dx += n * dx_strides[0] + row * dx_strides[2] + column * dx_strides[3];

    Acc_T sum[4] = {};
    UNROLL for (int k = 0; k < 4; ++k) {             // the cells above left, above, left, at the pixel
        const int left = k % 2 == 0, above = k < 2;
        const int* cell = starts + (row + !above) * across + column + !left;
        const int end = cell[1];
        NO_UNROLL for (int e = cell[0]; e < end; ++e) {
            const int p = order[e];
            const Acc_T fx = fractions[i64(p) * 2], fy = fractions[i64(p) * 2 + 1];
            const Acc_T weight = (left ? fx : 1 - fx) * (above ? fy : 1 - fy);
            unsigned j;
            const unsigned i = w.divmod(p, j);
            const T* from = dy + i * dy_strides[2] + j * dy_strides[3];
            UNROLL for (int q = 0; q < 4; ++q)
                if (const int c = at.chunk + q * chunks; c < channels)
                    sum[q] += weight * to_acc(from[c * dy_strides[1]]);
        }
    }
    UNROLL for (int q = 0; q < 4; ++q)
        if (const int c = at.chunk + q * chunks; c < channels) {
            T* to = dx + c * dx_strides[1];
            *to = from_acc<T>(blend(alpha, sum[q], beta, to));
        }
}
