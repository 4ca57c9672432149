/*@kernel
name    = "block_scale_quantize_rows_{T}_{Y}"
about   = """The scale of each block of a row, and its elements by it, in one read: rows side by side, eight \
             neighbours a thread."""
T       = ["f32", "f16", "bf16"]
Y       = ["f8_e4m3", "f8_e5m2"]
targets = ["sm_90"]
params  = ["const T* x", "unsigned char* y", "void* scale", "int64_t groups", "FastDiv columns",
           "FastDiv rows", "int all_rows", "int cols", "int lanes", "int64_t step_batch", "int64_t step_row",
           "int is_tiled", "int is_f32", "float most", "int mantissa", "float normal", "float step",
           "float least", "float highest"]
block   = [256, 1, 1]
grid    = ["ceil_div(groups * lanes, 256)", 1, 1]
needs   = ["lanes in (1, 2, 4, 8, 16, 32)", "groups >= 1", "groups * lanes < 2147483392", "cols % 8 == 0",
           "columns * lanes * 8 >= cols", "all_rows <= rows"]
problems = ["block_scale_quantize x=3x5x136:{T} to={Y} scales=f8_e8m0",
            """block_scale_quantize x=2x33x144:{T} block=16 to={Y} scales=f8_e4m3 is_tiled=True \
               y=2x33x144:{Y} scale=2x128x12:f8_e4m3""",
            "block_scale_quantize x=7x256:{T} block=256 to={Y} scales=f32",
            "block_scale_quantize x=70x8:{T} block=8 to={Y} scales=f8_e8m0"]
@*/
// `lanes` threads have a block of 8 * lanes elements. Scales: `columns` of them for each of `rows` rows, of a
// batch; those of no element, which tiles may have, are those of zeros. The others as Scales has them.
#include "block_scale/scale_of.cuh"
#include "block_scale/tiles.cuh"
#include "lib/math.cuh"

struct f8_e4m3 {};
struct f8_e5m2 {};
// PTX ISA §cvt (.e4m3x2, .e5m2x2, .satfinite): b in the lower byte.
DEVICE unsigned pair_of(f8_e4m3, float a, float b) {
    unsigned short r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(a), "f"(b));
    return r;
}
DEVICE unsigned pair_of(f8_e5m2, float a, float b) {
    unsigned short r;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(a), "f"(b));
    return r;
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* x, unsigned char* y, void* scale, i64 groups, FastDiv columns, FastDiv rows, int all_rows,
    int cols, int lanes, i64 step_batch, i64 step_row, int is_tiled, int is_f32, float most, int mantissa,
    float normal, float step, float least, float highest) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x, lane = item & (lanes - 1);
    unsigned col, row;
    const unsigned batch = rows.divmod(columns.divmod(item / lanes, col), row);
    const int at = (col * lanes + lane) * 8;
    const bool is_there = item / lanes < groups && int(row) < all_rows && at < cols;
    const i64 from = (i64(batch) * all_rows + row) * cols + at;
    float v[8] = {};
    if (is_there) Vec<T, 8>::load_nc(x + from).get(v);
    float top = 0;
    UNROLL for (int i = 0; i < 8; ++i) top = larger(top, fabsf(v[i]));
    NO_UNROLL for (int apart = lanes / 2; apart; apart /= 2)
        top = larger(top, __shfl_xor_sync(~0u, top, apart));
    const float of = Scales{most, mantissa, normal, step, least, highest}.of(top);
    if (is_there) {
        const float by = 1 / of;
        const bool is_exact = mantissa == 0;                 // a power of two
        unsigned pairs[4];
        UNROLL for (int i = 0; i < 4; ++i) {
            float two[2];
            UNROLL for (int e = 0; e < 2; ++e) {
                const float each = v[2 * i + e];
                two[e] = of == 0 ? 0 : is_exact ? each * by : each / of;
            }
            pairs[i] = pair_of(Y{}, two[1], two[0]);
        }
        const uint2 out = {pairs[0] | pairs[1] << 16, pairs[2] | pairs[3] << 16};
        *reinterpret_cast<uint2*>(y + from) = out;
    }
    if (lane || item / lanes >= groups) return;
    const i64 place = batch * step_batch + place_of(row, col, columns.by, step_row, is_tiled);
    if (is_f32) reinterpret_cast<float*>(scale)[place] = of;
    else {
        const unsigned power = of != of ? 255 : __float_as_uint(of) >> 23;
        static_cast<unsigned char*>(scale)[place] = mantissa == 0 ? power : pair_of(f8_e4m3{}, 0, of) & 255;
    }
}
