/*@kernel
name    = "grouped_matmul_wgrad_wgmma_{T}_{TILE_M}x{TILE_N}"
about   = """The sum over the rows of each expert's groups of the products of two rows, on Hopper's tensor \
             cores (TMA, wgmma, f32 sums); rows contiguous, 16-byte strides."""
T       = ["f16", "bf16"]
TILE_M  = [128]
TILE_N  = [256, 128]
targets = ["sm_90a"]
params  = ["const CUtensorMap a", "const CUtensorMap b", "const CUtensorMap boxes", "const int* offsets",
           "int64_t offsets_step", "int count", "int groups", "int experts", "int rows", "T* dw", "int m",
           "int n", "Array<FastDiv, 5> order", "int form", "int along_m", "int64_t dw_e", "int64_t dw_m",
           "int64_t dw_n", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "rows >= 1", "count >= 1", "0 <= groups", "groups <= 440", "groups <= count",
           "experts >= 1", "order[4] == experts",
           "is_tile_order(order, ceil_div(m, TILE_M), ceil_div(n, TILE_N), order[4])",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] < 2147483648", "0 <= form", "form <= 2"]
marks   = ["epilogue"]
problems = [
    """grouped_matmul_wgrad x=1x200x136:{T} dy=1x200x{TILE_N + 16}:{T} offsets=5x1x1:i32 \
       dw=5x136x{TILE_N + 16}:{T}""",
    """grouped_matmul_wgrad x=1x70x24:{T}@2240,32,1 dy=1x70x{TILE_N - 3}:{T}@{70 * TILE_N},{TILE_N},1 \
       offsets=7x1x1:i64@2,1,1 dw=3x24x{TILE_N - 3}:{T}@{25 * TILE_N},{TILE_N - 1},1"""]
@*/
// c of an expert is the sum of a^T b over the rows of its groups, which are those from its own on, so many
// experts apart. A step has 64 rows of one group: what else TMA brings becomes 0 before it is multiplied.
// form: as matmul_wgmma's, without FUSED.
#include "grouped_matmul/group_tiles.cuh"
#include "matmul/matrices.cuh"

namespace cydnn {
// The rows of an expert's groups, a step after the other.
struct ExpertRows {
    const int* begins;
    int groups, experts, group = 0, at = 0, end = 0;

    DEVICE void skip() {                         // to the next group that has rows
        while (at >= end && group < groups) {
            at = begins[group + 1], end = begins[group + 2], group += experts;
        }
    }
    DEVICE void begin(int expert) { group = expert, at = 0, end = 0, skip(); }
    DEVICE int rows() const { return end - at; }
    DEVICE void next(int step) { at += step, skip(); }
};

template <class Tile> struct ExpertDepth {
    const int* begins;
    int groups, experts;
    DEVICE int first() const { return blockIdx.x; }
    DEVICE int begin(const TileAt&) const { return 0; }
    DEVICE int steps(const TileAt& tile) const {
        int found = 0;
        for (int g = tile.matrix; g < groups; g += experts)
            found += ceil_div(max(begins[g + 2] - begins[g + 1], 0), Tile::k);
        return found;
    }
};

// Of a stage the rows of the depth from `valid` on become 0, before both warpgroups read it.
template <class Tile> DEVICE void clear_rows(unsigned char* stage, int valid) {
    const int count = (Tile::k - valid) * CHUNKS;
    NO_UNROLL for (int i = threadIdx.x - 128; i < count * ((Tile::m + Tile::n) / 64); i += 256) {
        const int panel = i / count, chunk = i % count;
        *reinterpret_cast<uint4*>(stage + panel * PART + valid * LINE + chunk * CHUNK) = {};
    }
    fence_async();
    asm volatile("bar.sync 3, 256;" ::: "memory");
}

// wgmma_sums of rows of groups.
template <class Tile, class A, class B>
DEVICE void expert_sums(float (&d)[Tile::sums], WgmmaRing<Tile>& ring, int steps, int group,
                        ExpertRows rows) {
    using Product = Wgmma<typename Tile::Elem::Type, Tile::group_n>;
    const unsigned a_part = group * PART, b_part = Tile::a_bytes;
    const bool speaks = threadIdx.x % 128 == 0;
    uint64_t* read = nullptr;
    NO_UNROLL for (int step = 0; step < steps; ++step) {
        barrier_wait(ring.full + ring.stage, ring.phase);
        if (rows.rows() < Tile::k) clear_rows<Tile>(ring.at(), rows.rows());
        rows.next(Tile::k);
        const unsigned stage = shared_address(ring.at());
        const uint64_t a = A::at(stage + a_part), b = B::at(stage + b_part);
        wgmma_begin(d);
        UNROLL for (int kk = 0; kk < Tile::Elem::products; ++kk)
            Product::template add<A::transposed, B::transposed>(d, a + kk * A::next, b + kk * B::next,
                                                                step > 0 || kk > 0);
        wgmma_commit();
        if (step > 0) {
            wgmma_wait<1>();
            if (speaks) barrier_arrive(read);
        }
        read = ring.empty + ring.stage;
        ring.next();
    }
    wgmma_wait<0>(d);
    if (speaks) barrier_arrive(read);
}

// Of a matrix, as put_boxes asks: the boxes of an expert and where it begins.
struct ExpertMatrices {
    i64 step;
    DEVICE void box(unsigned matrix, int (&at)[3]) const { at[0] = int(matrix), at[1] = 0, at[2] = 0; }
    DEVICE i64 offset(unsigned matrix) const { return matrix * step; }
    DEVICE int column(unsigned) const { return 0; }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap boxes, const int* offsets, i64 offsets_step, int count, int groups,
    int experts, int rows, T* dw, int m, int n, TileDivisors order, int form, int along_m, i64 dw_e, i64 dw_m,
    i64 dw_n, Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, false>;
    using B = WgmmaPanel<T, TILE_N, false>;
    extern __shared__ unsigned char shared[];
    __shared__ Intervals intervals;
    WgmmaRing<Tile> ring(shared);
    intervals.fill(Groups{offsets, offsets_step, count, groups}, rows);
    if (threadIdx.x == 0) tensor_ahead(a), tensor_ahead(b), ring.begin();
    __syncthreads();
    const TileOrder<Tile> tiles = {order, m, 1};
    const ExpertDepth<Tile> depth = {intervals.begins, groups, experts};
    WholeTiles<TileOrder<Tile>, ExpertDepth<Tile>> walk(tiles, depth);
    ExpertRows from = {intervals.begins, groups, experts};

    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas
    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) NO_UNROLL while (walk.more()) {
            from.begin(walk.tile.matrix);
            wgmma_produce(ring, walk.steps, [&](int, unsigned char* stage, uint64_t* full) {
                const int none[3] = {};
                A::load(stage, a, from.at, walk.tile.row, none, full);
                B::load(stage + Tile::a_bytes, b, from.at, walk.tile.col, none, full);
                from.next(Tile::k);
            });
        }
        return;
    }
    registers_take<Tile::registers>();
    const WgmmaOut<Tile, T> to = {dw, nullptr, 1.f, 0.f, m, n, form, along_m, dw_m, dw_n};
    ExpertMatrices matrices = {dw_e};
    const int group = role - 1;
    NO_UNROLL while (walk.more()) {
        const TileAt tile = walk.tile;
        const int steps = __shfl_sync(~0u, walk.steps, 0);
        float d[Tile::sums];
        from.begin(tile.matrix);
        if (steps > 0) expert_sums<Tile, A, B>(d, ring, steps, group, from);
        UNROLL for (auto& sum : d) sum = steps > 0 ? sum : 0;
        if (form == BOXES) put_boxes<Tile>(d, ring.way_out(group), boxes, to, matrices, tile, group);
        else to.put(d, ring, group, matrices.offset(tile.matrix), 0, tile, Depth<Tile>{1, 1, 1});
    }
    if (sends_boxes<Tile>()) store_wait_read<0>();    // shared memory goes with the block
}
