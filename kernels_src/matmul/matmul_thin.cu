/*@kernel
name    = "matmul_thin_{T}_{COLUMNS}_{WIDE_MAJOR}_{FEW_MAJOR}"
about   = """Product of a large matrix and one of few columns on Hopper's tensor cores (TMA, wgmma, \
             f32 sums): as fast as the large one comes from memory."""
T       = ["f16", "bf16"]
COLUMNS = [16, 32, 64]
WIDE_MAJOR = ["wk", "wm"]
FEW_MAJOR = ["fk", "fn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap wide", "const CUtensorMap few", "T* c", "float* parts", "float alpha",
           "float beta", "int rows", "int columns", "int k",
           "Array<FastDiv, 5> order", "FastDiv steps", "int share", "int alone", "int rest",
           "int c_along_few", "int col_of_rows", "Array<int, 3> wide_moves", "Array<int, 3> few_moves",
           "int64_t c_row", "int64_t c_column", "Array<FastDiv, 6> batch", "Array<int64_t, 6> c_batch",
           "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cooperative = "share"
smem    = """33024 + 1024 + 198400 // (16384 + 128 * (COLUMNS if FEW_MAJOR == 'fk' else 64)) * \
             (16384 + 128 * (COLUMNS if FEW_MAJOR == 'fk' else 64))"""
extra   = ["blocks"]
needs   = ["rows >= 1", "columns >= 1", "columns <= COLUMNS", "k >= 1",
           "is_tile_order(order, ceil_div(rows, 128), 1, order[4])",
           "batch[3] * batch[4] * batch[5] == 1", "ceil_div(rows, 128) * order[4] < 2147483648",
           "share >= 0", "steps == ceil_div(k, {line(T)})", "0 <= alone", "0 <= rest",
           "share * blocks >= rest", "share * blocks < 2147483648",
           "alone + rest // ceil_div(k, {line(T)}) == ceil_div(rows, 128) * order[4]",
           "rest % ceil_div(k, {line(T)}) == 0",
           "share > 0 or rest == 0"]
marks   = ["epilogue"]
problems = ["""matmul a={COLUMNS - 3}x136:{T}@{'136,1' if FEW_MAJOR == 'fk' else '1,72'} \
               b=136x333:{T}@{'1,136' if WIDE_MAJOR == 'wk' else '336,1'} c={COLUMNS - 3}x333:{T}""",
            """matmul a=200x520:{T}@{'520,1' if WIDE_MAJOR == 'wk' else '1,200'} \
               b=520x{COLUMNS - 8}:{T}@{'1,520' if FEW_MAJOR == 'fk' else '64,1'} \
               c=200x{COLUMNS - 8}:{T}@{COLUMNS},1"""]
@*/
// A block takes tiles of 128 rows one after the other, and then a share of the steps of those that are left
// (tile/wgmma_walk.cuh). `wide` is a and `few` b, or the other way round, and c is then walked transposed:
// c_row and c_column are the steps along the rows of `wide` and those of `few`. wk, fk: the depth is
// contiguous; wm, fn: the rows. col_of_rows: the columns of c are the rows of `wide`. Moves, batch and
// c_batch as in matmul_wgmma; where c_along_few, neighbours in the memory of c are columns.
#include "matmul/matrices.cuh"

namespace cydnn {
// The way out of a tile: 64 rows of a warpgroup come to shared memory, column by column.
template <class T> struct ThinOut {
    static constexpr bool is_matrix = false, has_boxes = false;
    T* c;
    float alpha, beta;
    int rows, columns, along_few, col_of_rows;
    i64 c_row, c_column;

    // The stores of a warp (8 rows, 4 pairs of columns) meet all 32 banks once, and so do loads of 32 rows.
    static DEVICE float& place(unsigned char* sums, int row, int column) {
        return reinterpret_cast<float*>(sums)[column * 64 + (row ^ column / 2 % 4 * 8)];
    }

    template <class Tile>
    DEVICE void put(const typename Tile::Sum (&d)[Tile::sums], const WgmmaRing<Tile>& ring, int group,
                    i64 first, int, const TileAt& tile, const Depth<Tile>&) const {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        unsigned char* sums = ring.way_out(group);
        group_barrier(group);                                // those of the tile before have left
        UNROLL for (int i = 0; i < Tile::sums; ++i)
            place(sums, 16 * warp + lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2) = d[i];
        group_barrier(group);
        NO_UNROLL for (int e = threadIdx.x % 128; e < 64 * Tile::n; e += 128) {
            const int r = along_few ? e / Tile::n : e % 64, column = along_few ? e % Tile::n : e / 64;
            const int row = tile.row + 64 * group + r;
            if (row >= rows || column >= columns) continue;
            const i64 off = first + row * c_row + column * c_column;
            float v[1] = {blend(alpha, place(sums, r, column), beta, c + off)};
            fuse_epilogue(v, off, col_of_rows ? row : column);
            c[off] = from_acc<T>(v[0]);
        }
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap wide, const __grid_constant__ CUtensorMap few, T* c, float* parts,
    float alpha, float beta, int rows, int columns, int k, TileDivisors order, FastDiv steps,
    int share, int alone, int rest, int c_along_few, int col_of_rows, Array<int, 3> wide_moves,
    Array<int, 3> few_moves, i64 c_row, i64 c_column, Array<FastDiv, BATCH_DIMS> batch, BatchSteps c_batch,
    Fuse fuse) {
    constexpr int lines = FEW_MAJOR::k_major ? COLUMNS : MmaElem<T>::line;
    using Tile = WgmmaTile<T, 128, COLUMNS, BY_GROUP, lines>;
    using A = WgmmaPanel<T, 128, WIDE_MAJOR::k_major>;
    using B = WgmmaPanel<T, lines, FEW_MAJOR::k_major>;
    constexpr FastDiv one = {1u << 31, 0, 1};    // rows of c are columns of `few`: no tiles go abreast
    extern __shared__ unsigned char shared[];
    Matrices<Tile, A, B> source = {wide, few, wide_moves, few_moves, batch, c_batch};
    const ThinOut<T> to = {c, alpha, beta, rows, columns, c_along_few, col_of_rows, c_row, c_column};
    wgmma_blocks<Tile, A, B>(shared, source, TileOrder<Tile>{order, rows, 1},
                             Stream<Tile>{{k, k, 1}, parts, share, alone, rest, steps, one}, wide, to);
}
