/*@kernel
name   = "matmul_sum_{T}"
about  = "Adds the splits of a matrix product in their order and blends the sum into c."
T      = ["f32", "f64", "f16", "bf16", "i32"]
params = ["const Acc_T* parts", "T* c", "Acc_T alpha", "Acc_T beta", "int count", "int splits", "FastDiv m",
          "FastDiv n", "int64_t c_m", "int64_t c_n", "Array<FastDiv, 6> batch", "Array<int64_t, 6> c_batch",
          "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "splits >= 2"]
marks  = ["epilogue"]
problems = ["matmul 37x70 70x21 {T}{' acc=i32' if T == i32 else ''}",
            "matmul 3x1401 1401x5 {T}{' acc=i32' if T == i32 else ''}",
            "matmul a=2x3x3x33:{T} b=2x3x33x5:{T} c=2x3x3x5:{T}@15,30,5,1{' acc=i32' if T == i32 else ''}",
            """{'matmul a=2x2x2x2x2x2x3x33 b=2x2x2x2x2x2x33x5 c=2x2x2x2x2x2x3x5:f32@15,60,30,240,120,480,1,3 \
               f32' if T == f32 else ''}"""]
@*/
// A thread sums one element of parts[split][batch][m][n]; four loads are in flight, the order of
// the sum is that of the splits.
#include "lib/epilogue.cuh"
#include "lib/math.cuh"
#include "matmul/batch.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const acc_t<T>* parts, T* c, acc_t<T> alpha, acc_t<T> beta, int count, int splits, FastDiv m, FastDiv n,
    i64 c_m, i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps c_batch, Fuse fuse) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    __builtin_assume(splits > 0);
    acc_t<T> sum = 0;
    const acc_t<T>* p = parts + i;
    _Pragma("unroll 4") for (int s = 0; s < splits; ++s) sum += p[i64(s) * count];

    unsigned row, col;
    const unsigned matrix = m.divmod(n.divmod(i, col), row);
    i64 off, unused, same;
    batch_offsets(matrix, batch, c_batch, c_batch, c_batch, unused, same, off);
    off += row * c_m + col * c_n;
    acc_t<T> v[1] = {blend(alpha, sum, beta, c + off)};
    fuse_epilogue(v, off, int(matrix), int(row), int(col));
    c[off] = from_acc<T>(v[0]);
}
