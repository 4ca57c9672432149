/*@kernel
name   = "transform_transpose_{X}_{Y}"
about  = "y[b][c][r] = alpha * x[b][r][c] + beta * y[b][c][r]. A block moves a 64 x 64 tile through shared memory."
X      = ["f64", "f32", "f16", "bf16"]
Y      = ["f64", "f32", "f16", "bf16"]
when   = ["(X == f64) == (Y == f64)"]
params = ["const X* x", "Y* y", "int rows", "int cols", "int64_t x_row", "int64_t y_col", "int64_t x_batch", "int64_t y_batch",
          "FastDiv row_tiles", "FastDiv col_tiles", "int x_vectors", "int y_vectors", "Acc_Y alpha", "Acc_Y beta"]
extra  = ["batches"]
block  = [256, 1, 1]
grid   = ["row_tiles * col_tiles * batches", 1, 1]
needs  = ["rows >= 1", "cols >= 1", "row_tiles == ceil_div(rows, 64)", "col_tiles == ceil_div(cols, 64)"]
@*/
// x is contiguous along c, y along r; x_row and y_col are the other strides. Both sides move 16 bytes an access where every
// row starts at a multiple of them (x_vectors, y_vectors), else neighbouring threads move neighbouring elements.
// A tile row is padded by one word: the accesses of a warp down a column fall into 16 banks or more.
#include "lib/types.cuh"

constexpr int TILE = 64, THREADS = 256;
constexpr int PITCH = TILE * sizeof(X) + (sizeof(X) < 4 ? 4 : sizeof(X));

DEVICE X& element(unsigned char* tile, int r, int c) { return *reinterpret_cast<X*>(tile + r * PITCH + c * int(sizeof(X))); }

DEVICE void load_vectors(unsigned char* tile, const X* x, int rows, int cols, i64 x_row) {
    constexpr int width = 16 / sizeof(X), each = TILE * TILE / width / THREADS;
    uint4 v[each];
    UNROLL for (int u = 0; u < each; ++u) {
        const int i = threadIdx.x + u * THREADS, r = i / (TILE / width), c = i % (TILE / width) * width;
        v[u] = r < rows && c < cols ? load_once(reinterpret_cast<const uint4*>(x + r * x_row + c)) : uint4{};
    }
    UNROLL for (int u = 0; u < each; ++u) {
        const int i = threadIdx.x + u * THREADS, r = i / (TILE / width), c = i % (TILE / width) * width;
        unsigned* to = reinterpret_cast<unsigned*>(&element(tile, r, c));
        to[0] = v[u].x, to[1] = v[u].y, to[2] = v[u].z, to[3] = v[u].w;
    }
}

DEVICE void load_elements(unsigned char* tile, const X* x, int rows, int cols, i64 x_row) {
    constexpr int at_once = 4;
    const int c = threadIdx.x % TILE;
    NO_UNROLL for (int first = threadIdx.x / TILE; first < TILE; first += at_once * THREADS / TILE) {
        X v[at_once];
        UNROLL for (int u = 0; u < at_once; ++u) {
            const int r = first + u * (THREADS / TILE);
            if (r < rows && c < cols) v[u] = x[r * x_row + c];
        }
        UNROLL for (int u = 0; u < at_once; ++u) {
            const int r = first + u * (THREADS / TILE);
            if (r < rows && c < cols) element(tile, r, c) = v[u];
        }
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

extern "C" __global__ __launch_bounds__(THREADS, 4) void KERNEL(
    const X* x, Y* y, int rows, int cols, int64_t x_row, int64_t y_col, int64_t x_batch, int64_t y_batch, FastDiv row_tiles,
    FastDiv col_tiles, int x_vectors, int y_vectors, Acc_Y alpha, Acc_Y beta) {
    __shared__ alignas(16) unsigned char tile[TILE * PITCH];
    unsigned row_tile, col_tile;
    const unsigned batch = col_tiles.divmod(row_tiles.divmod(blockIdx.x, row_tile), col_tile);
    const i64 row0 = i64(row_tile) * TILE, col0 = i64(col_tile) * TILE;
    x += batch * x_batch + row0 * x_row + col0;
    y += batch * y_batch + col0 * y_col + row0;
    rows = min(int(rows - row0), TILE), cols = min(int(cols - col0), TILE);

    if (x_vectors) load_vectors(tile, x, rows, cols, x_row);
    else load_elements(tile, x, rows, cols, x_row);
    __syncthreads();

    constexpr int width = 16 / sizeof(Y);
    if (y_vectors) {
        UNROLL for (int i = threadIdx.x; i < TILE * TILE / width; i += THREADS) {
            const int c = i / (TILE / width), r = i % (TILE / width) * width;
            if (r < rows && c < cols) store<width>(tile, y + c * y_col + r, r, c, alpha, beta);
        }
    } else {
        _Pragma("unroll 4") for (int c = threadIdx.x / TILE; c < TILE; c += THREADS / TILE) {
            const int r = threadIdx.x % TILE;
            if (r < rows && c < cols) store<1>(tile, y + c * y_col + r, r, c, alpha, beta);
        }
    }
}
