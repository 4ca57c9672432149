/*@kernel
name    = "grouped_matmul_wgmma_{T}_{TILE_M}x{TILE_N}_{W_MAJOR}"
about   = """Rows of groups times the matrix of their expert on Hopper's tensor cores (TMA, wgmma, f32 \
             sums); rows of tokens contiguous, 16-byte strides. Rows may be scattered."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 128]
W_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap x", "const CUtensorMap w", "const int* offsets", "int64_t offsets_step",
           "int count", "int groups", "FastDiv experts", "const int* index", "int64_t index_step",
           "const int* rows_of", "const int* slot", "int64_t slot_step", "int top_k", "T* y", "int m",
           "int n", "int k", "int rows", "FastDiv band", "int form", "int along_m", "int64_t y_m",
           "int64_t y_n", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "count >= 1", "0 <= groups", "groups <= 440", "groups <= count",
           "rows >= 1", "band == rows * ceil_div(n, TILE_N)",
           "(2 * ceil_div(m, TILE_M) + groups + 3) * ceil_div(n, TILE_N) < 2147483648"]
marks   = ["epilogue"]
problems = [
    """grouped_matmul x=1x300x104:{T} w=5x104x{TILE_N + 16}:{T}@{104 * (TILE_N + 16)},\
       {1 if W_MAJOR == 'bk' else TILE_N + 16},{104 if W_MAJOR == 'bk' else 1} offsets=6x1x1:i32 \
       y=1x300x{TILE_N + 16}:{T}""",
    """grouped_matmul x=1x9x40:{T}@800,80,1 w=2x40x20:{T}@1920,{'1,48' if W_MAJOR == 'bk' else '24,1'} \
       offsets=3x1x1:i64@2,1,1 index=1x37x1:i32@90,2,1 y=1x37x20:{T}@740,1,37 mode=gather""",
    """grouped_matmul x=1x148x64:{T} w=1x64x24:{T}@1536,{'1,64' if W_MAJOR == 'bk' else '24,1'} \
       offsets=3x1x1:i32 index=1x148x1:i32 slot=1x148x1:i32 y=1x148x24:{T} mode=scatter top_k=2""",
    """grouped_matmul x=1x48x8:{T} w=2x8x8:{T}@64,{'1,8' if W_MAJOR == 'bk' else '8,1'} offsets=2x1x1:i32 \
       index=1x48x1:i32 slot=1x48x1:i32 y=1x48x8:{T}@384,1,48 mode=scatter"""]
@*/
// A block takes tiles of one group after the other's. x: the depth of rows, and rows; w: as matmul_wgmma's
// operand b, a matrix for each expert. form: 0 elements, 1 rows of y are whole vectors of 8. rows, band: as
// GroupTiles has them.
#include "grouped_matmul/group_tiles.cuh"
#include "matmul/matrices.cuh"

namespace cydnn {
template <class Tile, class A, class B> struct GroupedSource {
    static constexpr bool may_cast = false, by_hand = false, in_pieces = false;
    const CUtensorMap &x, &w;
    int row = 0, col = 0, depth = 0, expert[3] = {};

    DEVICE void ahead() const { tensor_ahead(x), tensor_ahead(w); }
    DEVICE i64 offset(unsigned) const { return 0; }
    DEVICE int column(unsigned) const { return 0; }
    DEVICE void begin(const TileAt& tile, int) {
        row = tile.row, col = tile.col, depth = 0, expert[0] = int(tile.matrix);
    }
    DEVICE void load(unsigned char* stage, uint64_t* full) {
        const int none[3] = {};
        A::load(stage, x, depth, row, none, full);
        B::load(stage + Tile::a_bytes, w, depth, col, expert, full);
        depth += Tile::k;
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, const int* offsets,
    i64 offsets_step, int count, int groups, FastDiv experts, const int* index, i64 index_step,
    const int* rows_of, const int* slot, i64 slot_step, int top_k, T* y, int m, int n, int k, int rows,
    FastDiv band, int form, int along_m, i64 y_m, i64 y_n, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, true>;
    using B = WgmmaPanel<T, TILE_N, W_MAJOR::k_major>;
    extern __shared__ unsigned char shared[];
    __shared__ Intervals intervals;
    intervals.fill_in_order(Groups{offsets, offsets_step, count, groups}, m);
    GroupedSource<Tile, A, B> source = {x, w};
    const GroupTiles<Tile> order = {intervals.begins, groups, m, rows_of != nullptr, experts, band, rows};
    const GroupOut<Tile, T> to = {y, n, form, along_m, y_m, y_n,
                                  {rows_of, index, slot, index_step, slot_step, top_k, m}};
    wgmma_blocks<Tile, A, B>(shared, source, order, GroupDepth{ceil_div(k, Tile::k)}, NoBoxes(), to);
}
