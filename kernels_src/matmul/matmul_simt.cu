/*@kernel
name   = "matmul_simt_{T}_{TILE}"
about  = "Batched matrix product on CUDA cores, any strides and sizes; the depth may be split."
T      = ["f32", "f64", "f16", "bf16"]
TILE   = ["t128x128", "t128x64", "t64x64", "t32x32",
          "a128x256", "a128x128", "a128x64", "a64x64"]
targets = ["sm_75", "sm_80"]
when   = ["(sm < 80) == (TILE == 't128x128' or TILE == 't128x64' or TILE == 't64x64' or TILE == 't32x32')",
          "sm < 80 or T == 'f32'"]
params = ["const T* a", "const T* b", "T* c", "Acc_T* parts", "Acc_T alpha", "Acc_T beta",
          "int m", "int n", "int k", "int split_k", "int batches",
          "int a_form", "int b_form", "int c_along_m",
          "int64_t a_m", "int64_t a_k", "int64_t b_k", "int64_t b_n", "int64_t c_m", "int64_t c_n",
          "Array<FastDiv, 6> batch", "Array<int64_t, 6> a_batch", "Array<int64_t, 6> b_batch",
          "Array<int64_t, 6> c_batch", "Fuse fuse"]
block  = ["64 if TILE == 'a64x64' else 128 if TILE == 'a128x64' else 256", 1, 1]
grid   = ["tiles_m * tiles_n * batches * splits", 1, 1]
smem   = """{75264 if TILE == 'a128x256' else 50688 if TILE == 'a128x128' else 38400 if TILE == 'a128x64' \
            else 26112 if TILE == 'a64x64' else 0}"""
extra  = ["tiles_m", "tiles_n", "splits"]
needs  = ["m >= 1", "n >= 1", "tiles_m * tiles_n * batches * splits < 2147483648"]
marks  = ["epilogue"]
problems = ["matmul 37x70 70x133 {T}",
            "matmul 5x0 0x7 {T}",
            "matmul a=132x36:{T} b=36x76:{T}@1,36 c=132x76:{T}@1,132",
            "matmul a=36x64:{T}@1,36 b=64x20:{T} c=36x20:{T}",
            "matmul a=37x70:{T}@1,37 b=70x21:{T}@1,70 c=37x21:{T}@1,37",
            "matmul 2x1x36x64 1x3x64x20 {T}",
            """matmul a=2x2x2x2x2x2x3x3:{T} b=2x2x2x2x2x2x3x5:{T} \
               c=2x2x2x2x2x2x3x5:{T}@15,60,30,240,120,480,5,1"""]
@*/
// A block makes one tile of one matrix over `split_k` of the depth. With one split (parts is null) it blends
// into c; else the sums go to parts[split][batch][m][n], which matmul_sum adds up in the order of the splits.
#include "lib/epilogue.cuh"
#include "matmul/batch.cuh"
#include "matmul/operand_simt.cuh"
#include "tile/simt.cuh"

extern "C" __global__ __launch_bounds__(TILE::threads, simt_blocks<T, TILE>()) void KERNEL(
    const T* a, const T* b, T* c, acc_t<T>* parts, acc_t<T> alpha, acc_t<T> beta, int m, int n, int k,
    int split_k, int batches, int a_form, int b_form, int c_along_m, i64 a_m, i64 a_k, i64 b_k, i64 b_n,
    i64 c_m, i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps a_batch, BatchSteps b_batch,
    BatchSteps c_batch, Fuse fuse) {
    using S = Simt<T, TILE>;
    extern __shared__ uint4 dynamic[];
    __shared__ typename S::Static fixed;
    auto& tiles = S::shared(fixed, dynamic);

    const unsigned tiles_n = ceil_div(n, S::n), tiles_m = ceil_div(m, S::m);
    const int col0 = blockIdx.x % tiles_n * S::n, row0 = blockIdx.x / tiles_n % tiles_m * S::m;
    const unsigned rest = blockIdx.x / tiles_n / tiles_m, matrix = rest % batches, split = rest / batches;
    const int begin = split * split_k, end = min(i64(begin) + split_k, i64(k));
    i64 a_off, b_off, c_off;
    batch_offsets(matrix, batch, a_batch, b_batch, c_batch, a_off, b_off, c_off);

    typename S::Sum acc[S::FM][S::FN];
    multiply_matrices<S, T>(tiles, {a_form, a + a_off, a_m, a_k, row0, m},
                            {b_form, b + b_off, b_n, b_k, col0, n}, begin, end, acc);

    auto emit = [&](int row, int col, typename S::Sum sum) {
        row += row0, col += col0;
        if (row >= m || col >= n) return;
        if (parts) {
            parts[((i64(split) * batches + matrix) * m + row) * n + col] = sum;
            return;
        }
        const i64 off = c_off + row * c_m + col * c_n;
        typename S::Sum v[1] = {blend(alpha, sum, beta, c + off)};
        fuse_epilogue(v, off, col);
        c[off] = from_acc<T>(v[0]);
    };
    S::drain(tiles, acc, c_along_m, emit);
}
