/*@kernel
name   = "matmul_any_{S}_{TILE}"
about  = """Batched matrix product of any types, strides and sizes; \
            spliced code loads and stores. The depth may be split."""
S      = ["f32", "f64", "i32"]
TILE   = ["t64x64", "t32x32"]
params = ["S* parts", "int m", "int n", "int k", "int split_k", "int batches", "int flags", "int64_t a_m",
          "int64_t a_k", "int64_t b_k", "int64_t b_n", "int64_t c_m", "int64_t c_n",
          "Array<FastDiv, 6> batch", "Array<int64_t, 6> a_batch", "Array<int64_t, 6> b_batch",
          "Array<int64_t, 6> c_batch", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * batches * splits", 1, 1]
extra  = ["tiles_m", "tiles_n", "splits"]
needs  = ["m >= 1", "n >= 1", "tiles_m * tiles_n * batches * splits < 2147483648"]
marks  = ["load_a", "load_b", "store"]
problems = [
    """matmul a=37x70:{'u8' if S == i32 else 'f16'} b=70x133:{'i8' if S == i32 else 'bf16'} c=37x133:{S} \
       acc={S}""",
    """matmul a=2x1x36x64:i8@2304,2304,1,36 b=1x3x64x20:{'i32' if S == i32 else 'f64'}@3840,1280,1,64 \
       c=2x3x36x20:{'f32' if S == i32 else 'f16'}@2160,720,1,36 acc={S}""",
    "matmul a=37x700:i8 b=700x70:i8 c=37x70:{S} acc={S}",
    "matmul a=3x0:i8 b=0x5:i8 c=3x5:{S} acc={S}"]
@*/
// A block makes one tile of one matrix over `split_k` of the depth. With one split (parts is null) spliced
// code stores it; else the sums go to parts[split][batch][m][n], which matmul_sum adds in order. load_a at
// batch, row, depth; load_b at batch, depth, col; store at batch, row, col. flags: 1 lanes along the depth
// for a, 2 for b, 4 neighbouring lanes store rows.
#include "matmul/batch.cuh"
#include "tile/main.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER, WORD)                                                   \
    DEVICE void fuse_load_a(VALUE& v, i64 off, int batch, int row, int depth) {      \
        asm volatile("// @fuse.load_a " WORD "v=%0 off=%1 batch=%2 row=%3 depth=%4;" \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(row), "r"(depth));  \
    }                                                                                \
    DEVICE void fuse_load_b(VALUE& v, i64 off, int batch, int depth, int col) {      \
        asm volatile("// @fuse.load_b " WORD "v=%0 off=%1 batch=%2 depth=%3 col=%4;" \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(depth), "r"(col));  \
    }                                                                                \
    DEVICE void fuse_store(VALUE& v, i64 off, int batch, int row, int col) {         \
        asm volatile("// @fuse.store " WORD "v=%0 off=%1 batch=%2 row=%3 col=%4;"    \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(row), "r"(col));    \
    }
MARKS(float, "f", "")
MARKS(double, "d", "")
MARKS(int, "r", "int ")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    S* parts, int m, int n, int k, int split_k, int batches, int flags, i64 a_m, i64 a_k, i64 b_k, i64 b_n,
    i64 c_m, i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps a_batch, BatchSteps b_batch,
    BatchSteps c_batch, Fuse fuse) {
    using T = Simt<S, TILE>;
    constexpr int EA = T::m * T::k / 256, EB = T::n * T::k / 256;
    __shared__ typename T::Shared tiles;

    const unsigned tiles_n = ceil_div(n, T::n), tiles_m = ceil_div(m, T::m);
    const int col0 = blockIdx.x % tiles_n * T::n, row0 = blockIdx.x / tiles_n % tiles_m * T::m;
    const unsigned rest = blockIdx.x / tiles_n / tiles_m, matrix = rest % batches, split = rest / batches;
    const int begin = split * split_k, end = min(i64(begin) + split_k, i64(k));
    i64 a_off, b_off, c_off;
    batch_offsets(matrix, batch, a_batch, b_batch, c_batch, a_off, b_off, c_off);

    const bool a_deep = flags & 1, b_deep = flags & 2;
    const int a_row = a_deep ? threadIdx.x / (T::k / EA) : threadIdx.x % T::m;
    const int a_at = (a_deep ? threadIdx.x % (T::k / EA) : threadIdx.x / T::m) * EA;
    const int b_row = b_deep ? threadIdx.x / (T::k / EB) : threadIdx.x % T::n;
    const int b_at = (b_deep ? threadIdx.x % (T::k / EB) : threadIdx.x / T::n) * EB;
    S ra[EA], rb[EB];
    auto load = [&](int, int first) {
        UNROLL for (int e = 0; e < EA; ++e) {
            const int row = row0 + a_row, depth = first + a_at + e;
            ra[e] = 0;
            if (row < m && depth < end)
                fuse_load_a(ra[e], a_off + row * a_m + depth * a_k, matrix, row, depth);
        }
        UNROLL for (int e = 0; e < EB; ++e) {
            const int col = col0 + b_row, depth = first + b_at + e;
            rb[e] = 0;
            if (col < n && depth < end)
                fuse_load_b(rb[e], b_off + depth * b_k + col * b_n, matrix, depth, col);
        }
    };
    auto store = [&](int buffer) {
        UNROLL for (int e = 0; e < EA; ++e) tiles.a[buffer][a_at + e][a_row] = ra[e];
        UNROLL for (int e = 0; e < EB; ++e) tiles.b[buffer][b_at + e][b_row] = rb[e];
    };
    S acc[T::FM][T::FN];
    simt_main<T>(tiles, acc, begin, end, [](int, int) {}, load, store);

    T::drain(tiles, acc, flags & 4, [&](int row, int col, S sum) {
        row += row0, col += col0;
        if (row >= m || col >= n) return;
        if (parts) parts[((i64(split) * batches + matrix) * m + row) * n + col] = sum;
        else fuse_store(sum, c_off + row * c_m + col * c_n, matrix, row, col);
    });
}
