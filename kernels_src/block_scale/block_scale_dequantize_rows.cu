/*@kernel
name    = "block_scale_dequantize_rows_{X}_{T}"
about   = "Elements of 8 bits times the scale of their block of a row: rows side by side, eight a thread."
X       = ["f8_e4m3", "f8_e5m2"]
T       = ["f32", "f16", "bf16"]
targets = ["sm_90"]
params  = ["const unsigned char* x", "const void* scale", "T* y", "unsigned items", "FastDiv chunks",
           "FastDiv rows", "int shift", "unsigned columns", "int64_t step_batch", "int64_t step_row",
           "int is_tiled", "int kind"]
block   = [256, 1, 1]
grid    = ["ceil_div(items, 256)", 1, 1]
needs   = ["1 <= items < 2147483392", "0 <= shift", "0 <= kind", "kind <= 2"]
problems = ["block_scale_dequantize x=3x5x136:{X} scale=3x5x5:f8_e8m0 y=3x5x136:{T}",
            """block_scale_dequantize x=2x33x144:{X} scale=2x128x12:f8_e4m3 y=2x33x144:{T} block=16 \
               is_tiled=True""",
            "block_scale_dequantize x=7x256:{X} scale=7x1:f32 y=7x256:{T} block=256",
            "block_scale_dequantize x=70x8:{X} scale=70x1:f8_e8m0 y=70x8:{T} block=8"]
@*/
// A row has so many `chunks` of eight, a block 1 << shift of them. kind of the scales: 0 f8_e8m0, 1 f8_e4m3,
// 2 f32.
#include "attention/fp8.cuh"
#include "block_scale/tiles.cuh"
#include "lib/math.cuh"

// 2^(code - 127); of 255 NaN.
DEVICE float power_of(unsigned code) {
    return __uint_as_float(code == 255 ? 0x7FC00000u : code == 0 ? 0x400000u : code << 23);
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const unsigned char* x, const void* scale, T* y, unsigned items, FastDiv chunks, FastDiv rows, int shift,
    unsigned columns, i64 step_batch, i64 step_row, int is_tiled, int kind) {
    const unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= items) return;
    unsigned chunk, row;
    const unsigned batch = rows.divmod(chunks.divmod(item, chunk), row), col = chunk >> shift;
    const i64 place = batch * step_batch + place_of(row, col, columns, step_row, is_tiled);
    float of;
    if (kind == 2) of = static_cast<const float*>(scale)[place];
    else {
        const unsigned code = static_cast<const unsigned char*>(scale)[place];
        of = kind == 0 ? power_of(code) : __low2float(halves_of(code, f8_e4m3{}));
    }
    const uint2 in = __ldg(reinterpret_cast<const uint2*>(x) + item);
    float v[8];
    UNROLL for (int i = 0; i < 4; ++i) {
        const unsigned short pair = (i < 2 ? in.x : in.y) >> i % 2 * 16 & 0xFFFF;
        const float2 two = __half22float2(halves_of(pair, X{}));
        v[2 * i] = two.x * of, v[2 * i + 1] = two.y * of;
    }
    Vec<T, 8>::of(v).store(y + i64(item) * 8);
}
