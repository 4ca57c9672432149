/*@kernel
name   = "reduction_columns_{FOLD}_{T}_{WIDE}"
about  = "Reduce with lanes along the kept elements, which are contiguous: 16 bytes a lane, or one element."
FOLD   = ["sum", "prod", "top"]
T      = ["f64", "f32", "f16", "bf16"]
WIDE   = [0, 1]
when   = ["sm == 75 or FOLD == 'top'"]         # max.NaN
targets = ["sm_75", "sm_80"]
params = ["const T* x", "Acc_T* part", "void* y", "int y_type", "int outputs", "int units", "int splits",
          "int lanes", "Array<FastDiv, 8> in_dims", "Array<int64_t, 8> in_strides",
          "Array<FastDiv, 8> out_dims", "Array<int64_t, 8> x_strides", "Array<int64_t, 8> y_strides",
          "int how", "double count", "double alpha", "double beta"]
block  = [256, 1, 1]
grid   = ["ceil_div(ceil_div(outputs, 16 // sizeof(T) if WIDE else 1), lanes) * splits", 1, 1]
needs  = ["1 <= outputs < 2**30", "0 <= units < 2**30", "splits >= 1",
          "lanes in (1, 2, 4, 8, 16, 32, 64, 128, 256)"]
problems = ["""reduction x=23x{64 if WIDE else 45}:{T} y=1x{64 if WIDE else 45}:f64 \
               mode={'avg' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'min'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x={600 // sizeof(T) if WIDE else 75}x{64 if WIDE else 45}:{T} \
               y=1x{64 if WIDE else 45}:f16 \
               mode={'norm2' if FOLD == 'sum' else 'mul_no_zeros' if FOLD == 'prod' else 'amax'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x={600 // sizeof(T) if WIDE else 75}x{64 if WIDE else 45}:{T} \
               y=1x{64 if WIDE else 45}:bf16 \
               mode={'norm1' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x=2x600x{64 if WIDE else 45}:{T}@40000,64,1 y=1x1x{64 if WIDE else 45}:f32 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x=2x2x3x2x2x2x2x{16 if WIDE else 5}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=1x1x1x1x1x1x1x{16 if WIDE else 5}:f32 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x=2x2x3x2x2x2x2x{16 if WIDE else 5}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=1x1x1x1x1x1x1x{16 if WIDE else 5}:f32 \
               mode={'norm2' if FOLD == 'sum' else 'mul_no_zeros' if FOLD == 'prod' else 'amax'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x=2x60x{64 if WIDE else 45}:{T}@40000,64,1 y=1x1x{64 if WIDE else 45}:f32 \
               mode={'norm2' if FOLD == 'sum' else 'mul_no_zeros' if FOLD == 'prod' else 'amax'} \
               acc={'f64' if T == f64 else 'f32'}""",
            """reduction x=2x2x3x2x2x2x2x{16 if WIDE else 5}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=2x2x3x2x2x2x2x{16 if WIDE else 5}:f32@32768,11264,3584,1600,704,288,64,1 \
               mode={'add' if FOLD == 'sum' else 'mul' if FOLD == 'prod' else 'max'} \
               acc={'f64' if T == f64 else 'f32'}"""]
@*/
// A block has `lanes` columns of VEC neighbouring outputs each and 256 / lanes groups of rows; a
// split is a range of rows (units). Groups are joined in a tree. With one split the result goes to y,
// else to part[split][output].
#include "folds.cuh"
#include "space.cuh"

constexpr int VEC = WIDE ? 16 / sizeof(T) : 1;
constexpr int AHEAD = 8;                           // loads in flight a thread: 4 blocks an SM have 128 KB

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, Acc_T* part, void* y, int y_type, int outputs, int units, int splits, int lanes,
    Array<FastDiv, 8> in_dims, Array<i64, 8> in_strides, Array<FastDiv, 8> out_dims, Array<i64, 8> x_strides,
    Array<i64, 8> y_strides, int how, double count, double alpha, double beta) {
    __shared__ Acc_T parts[VEC][256];
    using Unit = Vec<T, VEC>;
    const int lane = threadIdx.x & (lanes - 1), group = threadIdx.x / lanes, groups = 256 / lanes;
    const int split = blockIdx.x % unsigned(splits);
    const i64 output = (i64(blockIdx.x / unsigned(splits)) * lanes + lane) * VEC;
    const bool inside = output < outputs;

    Acc_T all[VEC];
    UNROLL for (int i = 0; i < VEC; ++i) all[i] = FOLD::start<Acc_T>(how);
    if (inside) {
        const Signs<T> signs(how);
        x += offset_of(unsigned(output), out_dims, x_strides);
        const int each = ceil_div(units, splits);
        const int begin = int(min(i64(units), i64(split) * each)), end = min(units, begin + each);
        for (int u = begin + group; u < end; u += AHEAD * groups) {
            Unit v[AHEAD];
            load_units<true, 7>(v, x, u, groups, end, in_dims, in_strides);
            UNROLL for (int a = 0; a < AHEAD; ++a) {
                if (u + a * groups >= end) break;
                v[a] = signs(v[a]);
                UNROLL for (int i = 0; i < VEC; ++i) all[i] = FOLD::take(all[i], to_acc(v[a][i]), how);
            }
        }
    }

    UNROLL for (int i = 0; i < VEC; ++i) parts[i][threadIdx.x] = all[i];
    for (int half = groups / 2; half > 0; half /= 2) {
        __syncthreads();
        if (group < half) UNROLL for (int i = 0; i < VEC; ++i) {
            all[i] = FOLD::join(all[i], parts[i][threadIdx.x + half * lanes]);
            parts[i][threadIdx.x] = all[i];
        }
    }
    if (!inside || group) return;
    if (part) {
        UNROLL for (int i = 0; i < VEC; ++i) part[i64(split) * outputs + output + i] = all[i];
        return;
    }
    const i64 off = offset_of(unsigned(output), out_dims, y_strides);
    UNROLL for (int i = 0; i < VEC; ++i) all[i] = FOLD::finish(all[i], how, count);
    UNROLL for (int i = 0; i < VEC; ++i) put_result(y, y_type, off + i * y_strides[0], all[i], alpha, beta);
}
