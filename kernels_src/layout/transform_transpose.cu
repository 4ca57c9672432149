/*@kernel
name   = "transform_transpose_{X}_{Y}"
about  = """y[b][c][r] = alpha * x[b][r][c] + beta * y[b][c][r]. \
            A block moves a 64 x 64 tile through shared memory."""
X      = ["f64", "f32", "f16", "bf16"]
Y      = ["f64", "f32", "f16", "bf16"]
when   = ["(X == f64) == (Y == f64)"]
params = ["const X* x", "Y* y", "int rows", "int cols", "int64_t x_row", "int64_t y_col", "int64_t x_batch",
          "int64_t y_batch", "FastDiv row_tiles", "FastDiv col_tiles", "int x_bytes", "int y_bytes",
          "Acc_Y alpha", "Acc_Y beta"]
extra  = ["batches"]
block  = [256, 1, 1]
grid   = ["row_tiles * col_tiles * batches", 1, 1]
needs  = ["rows >= 1", "cols >= 1", "row_tiles == ceil_div(rows, 64)", "col_tiles == ceil_div(cols, 64)"]
problems = ["transform x=1x70x6x11:{X} y=1x70x6x11:{Y}@nhwc",
            "transform x=2x72x64:{X} y=2x72x64:{Y}@4608,1,72",
            "transform x=2x68x76:{X} y=2x68x76:{Y}@5168,1,68",
            "transform x=2x65x67:{X} y=2x65x67:{Y}@4355,1,65"]
@*/
// x is contiguous along c, y along r; x_row and y_col are the other strides. Each side moves the most bytes
// an access at a multiple of which all its rows start and end (x_bytes, y_bytes): 16, 8 (14 x 14 images of
// f16), or an element (7 x 7). A tile row is padded by one word: the accesses of a warp down a column fall
// into 16 banks or more.
#include "lib/types.cuh"

constexpr int TILE = 64, THREADS = 256;
constexpr int PITCH = TILE * sizeof(X) + (sizeof(X) < 4 ? 4 : sizeof(X));

DEVICE X& element(unsigned char* tile, int r, int c) {
    return *reinterpret_cast<X*>(tile + r * PITCH + c * int(sizeof(X)));
}

// All of a thread's accesses are in flight at once: a small tensor is one round trip, whatever its alignment.
template <class Access>
DEVICE void load_tile(unsigned char* tile, const X* x, int rows, int cols, i64 x_row) {
    constexpr int width = sizeof(Access) / sizeof(X), across = TILE / width, each = TILE * across / THREADS;
    Access v[each];
    const int c = threadIdx.x % across * width, first = threadIdx.x / across;
    UNROLL for (int u = 0; u < each; ++u) {
        const int r = first + u * (THREADS / across);
        v[u] = r < rows && c < cols ? load_once(reinterpret_cast<const Access*>(x + r * x_row + c))
                                    : Access{};
    }
    UNROLL for (int u = 0; u < each; ++u) {
        X* const to = &element(tile, first + u * (THREADS / across), c);
        if constexpr (sizeof(Access) < 4) *reinterpret_cast<Access*>(to) = v[u];
        else UNROLL for (int w = 0; w < int(sizeof(Access) / 4); ++w)
            reinterpret_cast<unsigned*>(to)[w] = reinterpret_cast<const unsigned*>(&v[u])[w];
    }
}

// Count rows of one column of the tile, to Count neighbours of y.
template <int Count> DEVICE void store(unsigned char* tile, Y* y, int r, int c, Acc_Y alpha, Acc_Y beta) {
    Acc_Y v[Count];
    UNROLL for (int k = 0; k < Count; ++k) v[k] = alpha * Acc_Y(to_acc(element(tile, r + k, c)));
    if (beta != 0) {
        Acc_Y old[Count];
        Vec<Y, Count>::load(y).get(old);
        UNROLL for (int k = 0; k < Count; ++k) v[k] += beta * old[k];
    }
    Vec<Y, Count>::of(v).store(y);
}

template <int Count>
DEVICE void store_tile(unsigned char* tile, Y* y, int rows, int cols, i64 y_col, Acc_Y alpha, Acc_Y beta) {
    constexpr int along = TILE / Count;
    const int r = threadIdx.x % along * Count, first = threadIdx.x / along;
    if (r >= rows) return;
    _Pragma("unroll 4") for (int u = 0; u < TILE; u += THREADS / along)
        if (const int c = first + u; c < cols) store<Count>(tile, y + c * y_col + r, r, c, alpha, beta);
}

extern "C" __global__ __launch_bounds__(THREADS, sizeof(X) < 8 ? 6 : 4) void KERNEL(
    const X* x, Y* y, int rows, int cols, int64_t x_row, int64_t y_col, int64_t x_batch, int64_t y_batch,
    FastDiv row_tiles, FastDiv col_tiles, int x_bytes, int y_bytes, Acc_Y alpha, Acc_Y beta) {
    __shared__ alignas(16) unsigned char tile[TILE * PITCH];
    unsigned row_tile, col_tile;
    const unsigned batch = col_tiles.divmod(row_tiles.divmod(blockIdx.x, row_tile), col_tile);
    const i64 row0 = i64(row_tile) * TILE, col0 = i64(col_tile) * TILE;
    x += batch * x_batch + row0 * x_row + col0;
    y += batch * y_batch + col0 * y_col + row0;
    rows = min(int(rows - row0), TILE), cols = min(int(cols - col0), TILE);

    if (x_bytes == 16) load_tile<uint4>(tile, x, rows, cols, x_row);
    else if (sizeof(X) < 8 && x_bytes == 8) load_tile<uint2>(tile, x, rows, cols, x_row);
    else load_tile<X>(tile, x, rows, cols, x_row);
    __syncthreads();

    if (y_bytes == 16) store_tile<16 / sizeof(Y)>(tile, y, rows, cols, y_col, alpha, beta);
    else if (sizeof(Y) < 8 && y_bytes == 8)
        store_tile<8 / sizeof(Y)>(tile, y, rows, cols, y_col, alpha, beta);
    else store_tile<1>(tile, y, rows, cols, y_col, alpha, beta);
}
