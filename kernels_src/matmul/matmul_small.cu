/*@kernel
name    = "matmul_small_{T}_{SIZE}"
about   = "Batched product of matrices of up to SIZE rows and columns on tensor cores: a warp for each."
T       = ["f16", "bf16"]
SIZE    = [16, 32]
targets = ["sm_80"]
params  = ["const T* a", "const T* b", "T* c", "float alpha", "float beta", "int m", "int n", "int k",
           "int batches", "int a_fours", "int b_fours", "FastDiv c_columns", "int c_vectors",
           "int c_along_m", "int64_t a_m", "int64_t a_k", "int64_t b_k", "int64_t b_n", "int64_t c_m",
           "int64_t c_n", "Array<FastDiv, 6> batch", "Array<int64_t, 6> a_batch", "Array<int64_t, 6> b_batch",
           "Array<int64_t, 6> c_batch", "Fuse fuse"]
block   = [128, 1, 1]
grid    = ["ceil_div(batches, 4)", 1, 1]
needs   = ["1 <= m and m <= SIZE", "1 <= n and n <= SIZE", "k >= 0", "a_fours == 0 or k % 4 == 0",
           "b_fours == 0 or k % 4 == 0", "c_vectors == 0 or n % 8 == 0"]
marks   = ["epilogue"]
problems = ["matmul a=7x{SIZE}x24 b=7x24x{SIZE} c=7x{SIZE}x{SIZE} {T}",
            "matmul a=2x3x{SIZE - 3}x21 b=2x1x21x13@273,273,1,21 c=2x3x{SIZE - 3}x13 {T}",
            """matmul a=5x{SIZE - 5}x20:{T}@{20 * SIZE},1,{SIZE} b=5x20x{SIZE - 7}:{T}\
@{20 * SIZE},1,20 c=5x{SIZE - 5}x{SIZE - 7}:{T}@{SIZE * SIZE},1,{SIZE}""",
            """matmul a=3x{SIZE - 2}x21:{T}@{21 * (SIZE - 2)},1,{SIZE - 2} b=3x21x{SIZE - 1} \
               c=3x{SIZE - 2}x{SIZE - 1} {T}""",
            "matmul a=3x2x0 b=3x0x8 c=3x2x8 {T}"]
@*/
// The depth may be summed in any order, if both operands agree: lane 4g + t has four neighbours of the depth,
// from 4t on, of row g of a and of column g of b; *_fours: they are contiguous, and read at once. Sums leave
// through shared memory, in the order of c: along its rows, or along its columns (c_along_m); c_columns: how
// many of these (vectors of 8 where c_vectors) a line has.
#include "lib/epilogue.cuh"
#include "lib/math.cuh"
#include "lib/mma.cuh"
#include "matmul/batch.cuh"

namespace cydnn {

// Four elements from `p` on, `step` apart; those behind the first `left` are 0.
template <class T> DEVICE void four_of(unsigned (&to)[2], const T* p, i64 step, int left, int together) {
    static_assert(MmaElem<T>::bytes == 2, "a lane has four elements of a product in two words");
    to[0] = to[1] = 0;
    if (left <= 0) return;
    if (together) {
        const uint2 both = *reinterpret_cast<const uint2*>(p);
        to[0] = both.x, to[1] = both.y;
        return;
    }
    const auto* bits = reinterpret_cast<const unsigned short*>(p);
    UNROLL for (int e = 0; e < 4; ++e)
        if (e < left) to[e / 2] |= unsigned(bits[e * step]) << e % 2 * 16;
}

template <int Size> struct SmallTile {
    float at[Size][Size + 4];
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* a, const T* b, T* c, float alpha, float beta, int m, int n, int k, int batches, int a_fours,
    int b_fours, FastDiv c_columns, int c_vectors, int c_along_m, i64 a_m, i64 a_k, i64 b_k, i64 b_n, i64 c_m,
    i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps a_batch, BatchSteps b_batch, BatchSteps c_batch,
    Fuse fuse) {
    __shared__ SmallTile<SIZE> tiles[4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const unsigned matrix = blockIdx.x * 4 + warp;
    if (matrix >= unsigned(batches)) return;
    i64 a_off, b_off, c_off;
    batch_offsets(matrix, batch, a_batch, b_batch, c_batch, a_off, b_off, c_off);
    a += a_off, b += b_off;

    MmaElem<T>::Sum sums[SIZE / 16][SIZE / 8][4] = {};
    NO_UNROLL for (int depth = 0; depth < k; depth += MmaElem<T>::k) {
        const int left = k - depth - 4 * t;
        unsigned rows[SIZE / 16][4], columns[SIZE / 8][2];
        UNROLL for (int i = 0; i < SIZE / 8; ++i) {
            unsigned found[2];
            const int row = 8 * i + g;
            four_of(found, a + row * a_m + (depth + 4 * t) * a_k, a_k, row < m ? left : 0, a_fours);
            rows[i / 2][i % 2] = found[0], rows[i / 2][2 + i % 2] = found[1];
            four_of(columns[i], b + row * b_n + (depth + 4 * t) * b_k, b_k, row < n ? left : 0, b_fours);
        }
        UNROLL for (int i = 0; i < SIZE / 16; ++i)
            UNROLL for (int j = 0; j < SIZE / 8; ++j) mma_m16n8<T>(sums[i][j], rows[i], columns[j]);
    }

    auto& tile = tiles[warp].at;
    UNROLL for (int i = 0; i < SIZE / 16; ++i)
        UNROLL for (int j = 0; j < SIZE / 8; ++j)
            UNROLL for (int e = 0; e < 4; ++e)
                tile[16 * i + g + e / 2 * 8][8 * j + 2 * t + e % 2] = sums[i][j][e];
    __syncwarp();
    if (c_vectors) {
        NO_UNROLL for (unsigned i = lane; i < m * c_columns.by; i += 32) {
            unsigned col, row = c_columns.divmod(i, col);
            const i64 off = c_off + row * c_m + col * 8;
            float v[8], old[8];
            Vec<float, 8>::load(&tile[row][col * 8]).get(v);
            if (beta != 0.f) Vec<T, 8>::load(c + off).get(old);
            UNROLL for (int e = 0; e < 8; ++e)
                v[e] = beta != 0.f ? alpha * v[e] + beta * old[e] : alpha * v[e];
            fuse_epilogue(v, off, int(col * 8));
            Vec<T, 8>::of(v).store(c + off);
        }
        return;
    }
    NO_UNROLL for (unsigned i = lane; i < m * n; i += 32) {
        unsigned inner, outer = c_columns.divmod(i, inner);
        const int row = c_along_m ? inner : outer, col = c_along_m ? outer : inner;
        const i64 off = c_off + row * c_m + col * c_n;
        float v[1] = {blend(alpha, tile[row][col], beta, c + off)};
        fuse_epilogue(v, off, col);
        c[off] = from_acc<T>(v[0]);
    }
}
