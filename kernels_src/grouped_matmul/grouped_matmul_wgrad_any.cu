/*@kernel
name   = "grouped_matmul_wgrad_any_{S}_{TILE}"
about  = """The gradient of each expert's matrix: a product over the rows of its groups, of any types and \
            strides; spliced code loads and stores."""
S      = ["f32", "f64", "i32"]
TILE   = ["t64x64", "t32x32"]
params = ["const int* offsets", "int64_t offsets_step", "int count", "int groups", "int experts", "int rows",
          "int k", "int n", "int flags", "int64_t x_t", "int64_t x_k", "int64_t dy_t", "int64_t dy_n",
          "int64_t dw_e", "int64_t dw_k", "int64_t dw_n", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n", "experts", 1]
extra  = ["tiles_m", "tiles_n"]
needs  = ["k >= 1", "n >= 1", "count >= 1", "experts < 65536", "tiles_m * tiles_n < 2147483648"]
marks  = ["load_x", "load_dy", "store"]
problems = [
    """grouped_matmul_wgrad x=1x70x19:{'u8' if S == i32 else 'f16'} dy=1x70x67:\
{'i8' if S == i32 else 'bf16'} offsets=5x1x1:i32 dw=5x19x67:{S}@1273,1,19 acc={S}""",
    """grouped_matmul_wgrad x=1x37x40:i8@1480,1,37 dy=1x37x20:{'i32' if S == i32 else 'f64'}@740,1,37 \
       offsets=7x1x1:i64@2,1,1 dw=2x40x20:{'f32' if S == i32 else 'f16'} acc={S}""",
    "grouped_matmul_wgrad x=1x0x3:i8 dy=1x0x5:i8 offsets=2x1x1:i32 dw=2x3x5:{S} acc={S}"]
@*/
// A block makes one tile of one expert's matrix; the depth is the rows of its groups, one after the other.
// load_x at depth, row; load_dy at depth, col; store at batch, row, col. flags: 1 lanes along the depth for
// x, 2 for dy, 4 neighbouring lanes store rows.
#include "grouped_matmul/groups.cuh"
#include "tile/main.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER, WORD)                                                     \
    DEVICE void fuse_load_x(VALUE& v, i64 off, int depth, int row) {                   \
        asm volatile("// @fuse.load_x " WORD "v=%0 off=%1 depth=%2 row=%3;"            \
                     : "+" LETTER(v) : "l"(off), "r"(depth), "r"(row));                \
    }                                                                                  \
    DEVICE void fuse_load_dy(VALUE& v, i64 off, int depth, int col) {                  \
        asm volatile("// @fuse.load_dy " WORD "v=%0 off=%1 depth=%2 col=%3;"           \
                     : "+" LETTER(v) : "l"(off), "r"(depth), "r"(col));                \
    }                                                                                  \
    DEVICE void fuse_store(VALUE& v, i64 off, int batch, int row, int col) {           \
        asm volatile("// @fuse.store " WORD "v=%0 off=%1 batch=%2 row=%3 col=%4;"      \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(row), "r"(col));      \
    }
MARKS(float, "f", "")
MARKS(double, "d", "")
MARKS(int, "r", "int ")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(const int* offsets, i64 offsets_step, int count,
                                                         int groups, int experts, int rows, int k, int n,
                                                         int flags, i64 x_t, i64 x_k, i64 dy_t, i64 dy_n,
                                                         i64 dw_e, i64 dw_k, i64 dw_n, Fuse fuse) {
    using T = Simt<S, TILE>;
    constexpr int EX = T::m * T::k / 256, ED = T::n * T::k / 256;
    __shared__ typename T::Shared tiles;

    const unsigned tiles_n = ceil_div(n, T::n);
    const int col0 = blockIdx.x % tiles_n * T::n, row0 = blockIdx.x / tiles_n * T::m, expert = blockIdx.y;
    const Groups all{offsets, offsets_step, count, groups};
    const bool x_deep = flags & 1, dy_deep = flags & 2;
    const int x_row = x_deep ? threadIdx.x / (T::k / EX) : threadIdx.x % T::m;
    const int x_at = (x_deep ? threadIdx.x % (T::k / EX) : threadIdx.x / T::m) * EX;
    const int dy_row = dy_deep ? threadIdx.x / (T::k / ED) : threadIdx.x % T::n;
    const int dy_at = (dy_deep ? threadIdx.x % (T::k / ED) : threadIdx.x / T::n) * ED;

    S rx[EX], rd[ED], acc[T::FM][T::FN], total[T::FM][T::FN];
    T::clear(total);
    for (int group = expert; group < groups; group += experts) {
        const int begin = all.at(group, rows);
        const int end = max(group + 1 < count ? all.at(group + 1, rows) : rows, begin);
        auto load = [&](int, int first) {
            UNROLL for (int e = 0; e < EX; ++e) {
                const int row = row0 + x_row, depth = first + x_at + e;
                rx[e] = 0;
                if (row < k && depth < end) fuse_load_x(rx[e], depth * x_t + row * x_k, depth, row);
            }
            UNROLL for (int e = 0; e < ED; ++e) {
                const int col = col0 + dy_row, depth = first + dy_at + e;
                rd[e] = 0;
                if (col < n && depth < end) fuse_load_dy(rd[e], depth * dy_t + col * dy_n, depth, col);
            }
        };
        auto store = [&](int buffer) {
            UNROLL for (int e = 0; e < EX; ++e) tiles.a[buffer][x_at + e][x_row] = rx[e];
            UNROLL for (int e = 0; e < ED; ++e) tiles.b[buffer][dy_at + e][dy_row] = rd[e];
        };
        simt_main<T>(tiles, acc, begin, end, [](int, int) {}, load, store);
        UNROLL for (int i = 0; i < T::FM; ++i)
            UNROLL for (int j = 0; j < T::FN; ++j) total[i][j] += acc[i][j];
    }
    T::drain(tiles, total, flags & 4, [&](int row, int col, S sum) {
        row += row0, col += col0;
        if (row < k && col < n)
            fuse_store(sum, expert * dw_e + row * dw_k + col * dw_n, expert, row, col);
    });
}
