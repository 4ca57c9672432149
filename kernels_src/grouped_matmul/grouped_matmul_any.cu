/*@kernel
name   = "grouped_matmul_any_{S}_{TILE}"
about  = """Rows of groups times the matrix of their expert, of any types and strides; spliced code loads \
            and stores. Rows may be gathered, or scattered."""
S      = ["f32", "f64", "i32"]
TILE   = ["t64x64", "t32x32"]
params = ["const int* offsets", "int64_t offsets_step", "int count", "int groups", "FastDiv experts",
          "const int* index", "int64_t index_step", "const int* rows_of", "const int* slot",
          "int64_t slot_step", "int top_k", "int tokens", "int m", "int n", "int k", "int flags",
          "int64_t x_t", "int64_t x_k", "int64_t w_e", "int64_t w_k", "int64_t w_n", "int64_t y_m",
          "int64_t y_n", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n", 1, 1]
extra  = ["tiles_m", "tiles_n"]
needs  = ["m >= 1", "n >= 1", "count >= 1", "tiles_m * tiles_n < 2147483648"]
marks  = ["load_x", "load_w", "store"]
problems = [
    """grouped_matmul x=1x70x19:{'u8' if S == i32 else 'f16'} w=5x19x67:{'i8' if S == i32 else 'bf16'}\
@1273,1,19 offsets=5x1x1:i32 y=1x70x67:{S} acc={S}""",
    """grouped_matmul x=1x9x40:i8@400,1,10 w=2x40x20:{'i32' if S == i32 else 'f64'} offsets=7x1x1:i64@2,1,1 \
       index=1x37x1:i32@90,2,1 y=1x37x20:{'f32' if S == i32 else 'f16'}@740,1,37 mode=gather acc={S}""",
    """grouped_matmul x=1x48x33:i8 w=1x33x20:i8 offsets=3x1x1:i32 index=1x48x1:i32 slot=1x48x1:i32 \
       y=1x48x20:{S} mode=scatter top_k=2 acc={S}""",
    """grouped_matmul x=1x90x70:i8 w=3x70x40:i8 offsets=3x1x1:i32 index=1x90x1:i32 slot=1x90x1:i32 \
       y=1x90x40:{S} mode=scatter top_k=2 acc={S}""",
    """grouped_matmul x=1x90x1:i8 w=1x1x40:i8 offsets=1x1x1:i32 index=1x90x1:i32 slot=1x90x1:i32 \
       y=1x90x40:{S}@3600,1,90 mode=scatter acc={S}""",
    "grouped_matmul x=1x3x0:i8 w=2x0x5:i8 offsets=2x1x1:i32 y=1x3x5:{S} acc={S}"]
@*/
// A block makes one tile of rows and columns, group after group: the rows of one are multiplied by its
// matrix and stored, those of others are left out. Mode: index alone gathers (a token that is not there is
// 0); with rows_of it scatters: rows_of has 1 + the row that goes to a place, 0 where none does, and so does
// the result. load_x at token, depth; load_w at expert, depth, col; store at row, col.
// flags: 1 lanes along the depth for x, 2 for w, 4 neighbouring lanes store rows.
#include "grouped_matmul/groups.cuh"
#include "tile/main.cuh"

namespace cydnn {
#define MARKS(VALUE, LETTER, WORD)                                                     \
    DEVICE void fuse_load_x(VALUE& v, i64 off, int row, int depth) {                   \
        asm volatile("// @fuse.load_x " WORD "v=%0 off=%1 row=%2 depth=%3;"            \
                     : "+" LETTER(v) : "l"(off), "r"(row), "r"(depth));                \
    }                                                                                  \
    DEVICE void fuse_load_w(VALUE& v, i64 off, int batch, int depth, int col) {        \
        asm volatile("// @fuse.load_w " WORD "v=%0 off=%1 batch=%2 depth=%3 col=%4;"   \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(depth), "r"(col));    \
    }                                                                                  \
    DEVICE void fuse_store(VALUE& v, i64 off, int row, int col) {                      \
        asm volatile("// @fuse.store " WORD "v=%0 off=%1 row=%2 col=%3;"               \
                     : "+" LETTER(v) : "l"(off), "r"(row), "r"(col));                  \
    }
MARKS(float, "f", "")
MARKS(double, "d", "")
MARKS(int, "r", "int ")
#undef MARKS
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const int* offsets, i64 offsets_step, int count, int groups, FastDiv experts, const int* index,
    i64 index_step, const int* rows_of, const int* slot, i64 slot_step, int top_k, int tokens, int m, int n,
    int k, int flags, i64 x_t, i64 x_k, i64 w_e, i64 w_k, i64 w_n, i64 y_m, i64 y_n, Fuse fuse) {
    using T = Simt<S, TILE>;
    constexpr int EX = T::m * T::k / 256, EW = T::n * T::k / 256;
    __shared__ typename T::Shared tiles;
    __shared__ int owners[T::m];

    const unsigned tiles_n = ceil_div(n, T::n);
    const int col0 = blockIdx.x % tiles_n * T::n, row0 = blockIdx.x / tiles_n * T::m;
    for (int at = threadIdx.x; at < T::m; at += 256)
        owners[at] = Groups{offsets, offsets_step, count, groups}.of(row0 + at);
    __syncthreads();
    const bool x_deep = flags & 1, w_deep = flags & 2;
    const int x_row = x_deep ? threadIdx.x / (T::k / EX) : threadIdx.x % T::m;
    const int x_at = (x_deep ? threadIdx.x % (T::k / EX) : threadIdx.x / T::m) * EX;
    const int w_row = w_deep ? threadIdx.x / (T::k / EW) : threadIdx.x % T::n;
    const int w_at = (w_deep ? threadIdx.x % (T::k / EW) : threadIdx.x / T::n) * EW;
    const int mine = row0 + x_row, last = min(row0 + T::m, m);
    int token = mine;
    if (index && !rows_of && mine < m) token = index[mine * index_step];
    const bool is_there = mine < m && unsigned(token) < unsigned(tokens);

    S rx[EX], rw[EW], acc[T::FM][T::FN];
    for (int row = row0, end; row < last; row = end) {
        const int group = owners[row - row0];
        for (end = row + 1; end < last && owners[end - row0] == group;) ++end;
        unsigned expert;
        experts.divmod(max(group, 0), expert);
        const int depths = group < 0 ? 0 : k;
        const bool reads = is_there && mine >= row && mine < end;
        auto load = [&](int, int first) {
            UNROLL for (int e = 0; e < EX; ++e) {
                const int depth = first + x_at + e;
                rx[e] = 0;
                if (reads && depth < depths) fuse_load_x(rx[e], token * x_t + depth * x_k, token, depth);
            }
            UNROLL for (int e = 0; e < EW; ++e) {
                const int col = col0 + w_row, depth = first + w_at + e;
                rw[e] = 0;
                if (col < n && depth < depths)
                    fuse_load_w(rw[e], expert * w_e + depth * w_k + col * w_n, expert, depth, col);
            }
        };
        auto store = [&](int buffer) {
            UNROLL for (int e = 0; e < EX; ++e) tiles.a[buffer][x_at + e][x_row] = rx[e];
            UNROLL for (int e = 0; e < EW; ++e) tiles.b[buffer][w_at + e][w_row] = rw[e];
        };
        simt_main<T>(tiles, acc, 0, depths, [](int, int) {}, load, store);
        T::drain(tiles, acc, flags & 4, [&](int at, int col, S sum) {
            at += row0, col += col0;
            int place = at;
            bool is_own = at >= row && at < end && col < n;
            if (rows_of && is_own) {
                place = place_of(index[at * index_step], slot[at * slot_step], top_k, m);
                is_own = place >= 0 && rows_of[place] == at + 1;
            }
            if (is_own) fuse_store(sum, place * y_m + col * y_n, place, col);
        });
    }
    if (!rows_of) return;
    T::clear(acc);
    T::drain(tiles, acc, flags & 4, [&](int at, int col, S sum) {
        at += row0, col += col0;
        if (at < m && col < n && rows_of[at] == 0) fuse_store(sum, at * y_m + col * y_n, at, col);
    });
}
