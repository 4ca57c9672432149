/*@kernel
name    = "conv_im2col_{T}_{VEC}"
about   = """The windows of an image as rows of a matrix, one for each output pixel: a thread has 16 bytes \
             of a row, gathered from VEC neighbours each."""
T       = ["f64", "f32", "f16", "bf16"]
VEC     = [1, 2, 4, 8]
when    = ["VEC * sizeof(T) <= 16"]
params  = ["const T* x", "T* to", "int rows", "int depth", "int lanes_log", "int each", "int64_t row_step",
           "int channel_inner", "Array<FastDiv, 3> out", "Array<FastDiv, 3> digit", "Array<int, 3> size",
           "Array<int, 3> stride", "Array<int, 3> first", "Array<int, 3> step", "int64_t x_n",
           "int64_t x_group", "int64_t x_c", "Array<int64_t, 3> x_s"]
block   = [256, 1, 1]
grid    = ["ceil_div(rows, each * 256 // 2 ** lanes_log)",
           "ceil_div(depth, 2 ** lanes_log * (16 // sizeof(T)))", "groups"]
extra   = ["groups"]
needs   = ["rows >= 1", "depth >= 1", "rows < 2147483616", "0 <= lanes_log and lanes_log <= 5",
           "1 <= each and each <= 32", "row_step >= depth", "row_step % (16 // sizeof(T)) == 0"]
problems = ["conv_fprop n2c8h6w5 k8r3s3 pad1 stride2 {T} nhwc",
            "conv_fprop n2c3h6w5 k4r2s3 pad1 dil2 {T}",
            "conv_fprop n3c6h5w7 k4r3s3 groups=2 mode=convolution {T}",
            "conv_fprop n2c16h5w7 k8r1s1 groups=2 {T} nhwc",
            "conv_fprop n2c64h5w7 k8r3s3 pad1 {T} nhwc",
            "conv_fprop n2c{4 * VEC}h5w6 k4r2s3 pad1 groups=2 {T} nhwc",
            "conv_fprop n2c3h6w{2 * VEC} k4r3s{VEC} stride=1,{VEC} pad=1,0 {T}"]
@*/
// to[group][row][depth]: row is a pixel of the output (n, o, p, q), depth runs over channels and taps in the
// order of the filter's memory. A thread keeps its place in the depth, 16 bytes, and goes through `each`
// rows; of a block 2^lanes_log threads that follow each other write neighbours of a row. Where the depths of
// a block lie is worked out once, by all its threads. What is behind the depth in the last 16 bytes of a row
// is any of its elements.
#include "conv/gather_simt.cuh"

struct alignas(8) Depth { i64 from; int z[3]; };            // elements from a pixel; along each dim

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, T* to, int rows, int depth, int lanes_log, int each, i64 row_step, int channel_inner,
    Array<FastDiv, 3> out, Array<FastDiv, 3> digit, Array<int, 3> size, Array<int, 3> stride,
    Array<int, 3> first, Array<int, 3> step, i64 x_n, i64 x_group, i64 x_c, Array<i64, 3> x_s) {
    constexpr int width = 16 / sizeof(T), loads = width / VEC;
    __shared__ Depth places[32 * loads];
    const unsigned by = 256u >> lanes_log, lanes = 1u << lanes_log, lane = threadIdx.x & (lanes - 1);
    const int k0 = (blockIdx.y << lanes_log) * width, k = k0 + lane * width;
    for (unsigned i = threadIdx.x; i < lanes * loads; i += 256) {
        int channel, tap[3];
        const int at = min(k0 + int(i) * VEC, depth - VEC);
        channel_and_tap(at, digit[0], digit[1], digit[2], channel_inner, channel, tap);
        Depth place = {channel * x_c};
        UNROLL for (int d = 0; d < 3; ++d) {
            place.z[d] = first[d] + tap[d] * step[d];
            place.from += place.z[d] * x_s[d];
        }
        places[i] = place;
    }
    __syncthreads();
    if (k >= depth) return;
    i64 from[loads];
    int z[loads][3], low[3], high[3];                        // the furthest of them
    UNROLL for (int l = 0; l < loads; ++l) {
        const Depth& place = places[lane * loads + l];
        from[l] = place.from;
        UNROLL for (int d = 0; d < 3; ++d) {
            z[l][d] = place.z[d];
            low[d] = l ? min(low[d], z[l][d]) : z[l][d], high[d] = l ? max(high[d], z[l][d]) : z[l][d];
        }
    }
    x += blockIdx.z * x_group;
    to += i64(blockIdx.z) * rows * row_step + k;
    const unsigned begin = blockIdx.x * each * by, end = min(begin + each * by, unsigned(rows));
    _Pragma("unroll 2") for (unsigned row = begin + (threadIdx.x >> lanes_log); row < end; row += by) {
        unsigned at[3], n = row;
        UNROLL for (int d = 2; d >= 0; --d) n = out[d].divmod(n, at[d]);
        const T* pixel = x + n * x_n;
        bool inside = true;
        int p[3];
        UNROLL for (int d = 0; d < 3; ++d) {
            p[d] = at[d] * stride[d], pixel += p[d] * x_s[d];
            inside &= p[d] + low[d] >= 0 & p[d] + high[d] < size[d];
        }
        Vec<T, width> v = {};
        if (inside) {
            UNROLL for (int l = 0; l < loads; ++l) {
                const auto some = Vec<T, VEC>::load_nc(pixel + from[l]);
                UNROLL for (int e = 0; e < VEC; ++e) v[l * VEC + e] = some[e];
            }
        } else if (loads > 1) {
            UNROLL for (int l = 0; l < loads; ++l) {
                bool is_there = true;
                UNROLL for (int d = 0; d < 3; ++d) is_there &= unsigned(p[d] + z[l][d]) < unsigned(size[d]);
                if (!is_there) continue;
                const auto some = Vec<T, VEC>::load_nc(pixel + from[l]);
                UNROLL for (int e = 0; e < VEC; ++e) v[l * VEC + e] = some[e];
            }
        }
        v.store(to + i64(row) * row_step);
    }
}
