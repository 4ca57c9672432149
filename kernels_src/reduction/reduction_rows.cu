/*@kernel
name   = "reduction_rows_{FOLD}_{T}_{MATH}_{WIDE}"
about  = """Reduce with lanes along the reduced elements: 16-byte loads where they are contiguous, \
            one element a lane on any strides."""
FOLD   = ["sum", "prod", "top"]
T      = ["f64", "f32", "f16", "bf16"]
MATH   = ["f32", "f64"]                           # what is computed in: f64 for f64, or where it is asked for
WIDE   = [0, 1]
when   = ["sm == 75 or FOLD == 'top'", "MATH == f64 or T != f64", "WIDE == 0 or MATH == f32 or T == f64"]
targets = ["sm_75", "sm_80"]
params = ["const T* x", "MATH* part", "void* y", "int y_type", "int outputs", "int units", "int splits",
          "int width", "Array<FastDiv, 8> in_dims", "Array<int64_t, 8> in_strides",
          "Array<FastDiv, 8> out_dims", "Array<int64_t, 8> x_strides", "Array<int64_t, 8> y_strides",
          "int how", "double count", "double alpha", "double beta"]
block  = [256, 1, 1]
grid   = ["ceil_div(outputs * splits, 256 // width)", 1, 1]
needs  = ["1 <= outputs < 2**30", "0 <= units < 2**30", "splits >= 1", "outputs * splits < 2**31",
          "width in (1, 2, 4, 8, 16, 32, 64, 128, 256)"]
problems = ["""reduction x=5x{'32' if FOLD == 'prod' else 4000 // sizeof(T) if WIDE else '251'}:{T} \
               y=5x1:f64 mode={'avg' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'min'} acc={MATH}""",
            """reduction x=5x{4000 // sizeof(T) if WIDE else 251}:{T} y=5x1:f16 \
               mode={'norm2' if FOLD == 'sum' else 'mul_no_zeros' if FOLD == 'prod' else 'amax'} \
               acc={MATH}""",
            """reduction x=5x{4000 // sizeof(T) if WIDE else 251}:{T} y=5x1:bf16 \
               mode={'norm1' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
            """reduction x=2x5x{80000 // sizeof(T) if WIDE else 5003}:{T} y=2x1x1:f32 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
            """reduction x=5x2x{4000 // sizeof(T) if WIDE else 251}:{T}@10000,4096,1 y=5x1x1:f32 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}""",
            """reduction x=2x2x3x2x2x2x2x{16 if WIDE else 5}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=1x1x1x1x1x1x1x1:f32 mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} \
               acc={MATH}""",
            """reduction x=2x2x3x2x2x2x2x{16 if WIDE else 5}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=2x2x3x2x2x2x2x1:f32@32768,11264,3584,1600,704,288,64,1 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} acc={MATH}"""]
@*/
// `width` neighbouring threads reduce one split of one output. A unit is VEC contiguous elements: in_dims
// counts units, in_strides is in elements. With one split the result goes to y, else to
// part[output][split] for another launch.
#include "folds.cuh"
#include "lib/reduce.cuh"
#include "space.cuh"

constexpr int VEC = WIDE ? 16 / sizeof(T) : 1;
constexpr int AHEAD = 8;                           // loads in flight a thread: 4 blocks an SM have 128 KB
constexpr int CHAINS = 4;                          // running results a thread, so that sums are no long chain

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, MATH* part, void* y, int y_type, int outputs, int units, int splits, int width,
    Array<FastDiv, 8> in_dims, Array<i64, 8> in_strides, Array<FastDiv, 8> out_dims, Array<i64, 8> x_strides,
    Array<i64, 8> y_strides, int how, double count, double alpha, double beta) {
    __shared__ MATH parts[8];
    using Unit = Vec<T, VEC>;
    const int lane = threadIdx.x & (width - 1);
    const i64 job = i64(blockIdx.x) * (256 / width) + threadIdx.x / width;
    const bool inside = job < i64(outputs) * splits;
    const unsigned output = unsigned(job) / unsigned(splits), split = unsigned(job) % unsigned(splits);

    MATH chain[CHAINS];
    UNROLL for (int i = 0; i < CHAINS; ++i) chain[i] = FOLD::start<MATH>(how);
    if (inside) {
        const Signs<T> signs(how);
        x += offset_of(output, out_dims, x_strides);
        const int each = ceil_div(units, splits);
        const int begin = int(min(i64(units), i64(split) * each)), end = min(units, begin + each);
        for (int u = begin + lane; u < end; u += AHEAD * width) {
            Unit v[AHEAD];
            load_units<WIDE, 8>(v, x, u, width, end, in_dims, in_strides);
            UNROLL for (int a = 0; a < AHEAD; ++a) {
                if (u + a * width >= end) break;
                v[a] = signs(v[a]);
                UNROLL for (int i = 0; i < VEC; ++i) {
                    MATH& all = chain[(a * VEC + i) % CHAINS];
                    all = FOLD::take(all, MATH(to_acc(v[a][i])), how);
                }
            }
        }
    }
    MATH all = FOLD::join(FOLD::join(chain[0], chain[1]), FOLD::join(chain[2], chain[3]));

    for (int mask = min(width, 32) / 2; mask > 0; mask /= 2) all = FOLD::join(all, shuffle_xor(all, mask));
    if (width > 32) {
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = all;
        __syncthreads();
        for (int w = 1; lane == 0 && w < width / 32; ++w) all = FOLD::join(all, parts[threadIdx.x / 32 + w]);
    }
    if (!inside || lane) return;
    if (part) {
        part[job] = all;
        return;
    }
    const i64 off = offset_of(output, out_dims, y_strides);
    put_result(y, y_type, off, FOLD::finish(all, how, count), alpha, beta);
}
