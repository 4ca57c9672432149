/*@kernel
name    = "grouped_matmul_mma_{T}_{TILE}_{W_MAJOR}"
about   = """Rows of groups times the matrix of their expert on tensor cores (mma.sync, f32 sums); rows of \
             tokens contiguous, 16-byte aligned. Rows may be gathered, or scattered."""
T       = ["f16", "bf16"]
TILE    = [128, 64]
W_MAJOR = ["bk", "bn"]
targets = ["sm_80"]
params  = ["const int* offsets", "int64_t offsets_step", "int count", "int groups", "FastDiv experts",
           "const int* index", "int64_t index_step", "const int* rows_of", "const int* slot",
           "int64_t slot_step", "int top_k", "int tokens", "const T* x", "const T* w", "T* y", "int m",
           "int n", "int k", "int vectors", "int along_m", "int64_t x_step", "int64_t w_e",
           "int64_t w_step", "int64_t y_m", "int64_t y_n", "Fuse fuse"]
block   = [128, 1, 1]
grid    = ["ceil_div(m, TILE) * ceil_div(n, TILE)", 1, 1]
smem    = "3 * (TILE + TILE) * 64 * 2"
needs   = ["m >= 1", "n >= 1", "count >= 1", "ceil_div(m, TILE) * ceil_div(n, TILE) < 2147483648"]
marks   = ["epilogue"]
problems = [
    """grouped_matmul x=1x150x104:{T} w=5x104x72:{T}@7488,{'1,104' if W_MAJOR == 'bk' else '72,1'} \
       offsets=11x1x1:i32 y=1x150x72:{T}""",
    """grouped_matmul x=1x9x40:{T}@800,80,1 w=2x40x20:{T}@1920,{'1,48' if W_MAJOR == 'bk' else '24,1'} \
       offsets=3x1x1:i64@2,1,1 index=1x60x1:i32@130,2,1 y=1x60x20:{T}@1200,1,60 mode=gather""",
    """grouped_matmul x=1x48x64:{T} w=1x64x24:{T}@1536,{'1,64' if W_MAJOR == 'bk' else '24,1'} \
       offsets=3x1x1:i32 index=1x48x1:i32 slot=1x48x1:i32 y=1x48x24:{T} mode=scatter top_k=2""",
    """grouped_matmul x=1x32x200:{T} w=1x200x20:{T}@4800,{'1,200' if W_MAJOR == 'bk' else '24,1'} \
       offsets=1x1x1:i32 index=1x32x1:i32 slot=1x32x1:i32 y=1x32x20:{T} mode=scatter""",
    "grouped_matmul x=1x3x0:{T}@8,8,1 w=2x0x8:{T}@8,{'1,8' if W_MAJOR == 'bk' else '8,1'} offsets=2x1x1:i32"]
@*/
// A block makes one tile of rows and columns, group after group, as grouped_matmul_any does; each has the
// pipeline of tile/mma.cuh, whose rows of other groups are 0. bk: the depth of w is contiguous and w_step
// goes to the next column; bn: the reverse. `vectors`: rows of y are whole chunks of 8.
#include "grouped_matmul/groups.cuh"
#include "tile/panel.cuh"
#include "tile/store.cuh"

namespace cydnn {
// The tokens of the rows that this thread copies chunks of, -1 for none.
template <class Tile> struct Tokens {
    static constexpr int apart = Tile::threads / CHUNKS, copies = Tile::m / apart;
    const T* x;
    i64 step;
    int k;
    int token[copies];
    DEVICE void load(int index, unsigned stage) const {
        const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        const int depth = index * Tile::Elem::line + chunk * Tile::Elem::chunk;
        const int bytes = max(0, min(k - depth, Tile::Elem::chunk)) * Tile::Elem::bytes;
        UNROLL for (int i = 0; i < copies; ++i)
            cp_async<CHUNK>(stage + swizzled(row, chunk, LINE) + i * apart * LINE,
                            x + max(token[i], 0) * step + depth, token[i] < 0 ? 0 : bytes);
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const int* offsets, i64 offsets_step, int count, int groups, FastDiv experts, const int* index,
    i64 index_step, const int* rows_of, const int* slot, i64 slot_step, int top_k, int tokens, const T* x,
    const T* w, T* y, int m, int n, int k, int vectors, int along_m, i64 x_step, i64 w_e, i64 w_step, i64 y_m,
    i64 y_n, Fuse fuse) {
    using Tile = MmaTile<T, TILE, TILE>;
    extern __shared__ __align__(128) unsigned char stages[];
    __shared__ int owners[TILE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_m = warp / Tile::warps_n, warp_n = warp % Tile::warps_n;
    const unsigned tiles_n = ceil_div(n, TILE), shared = shared_address(stages);
    const int row0 = blockIdx.x / tiles_n * TILE, col0 = blockIdx.x % tiles_n * TILE;
    const int last = min(row0 + TILE, m);
    for (int at = threadIdx.x; at < TILE; at += Tile::threads)
        owners[at] = Groups{offsets, offsets_step, count, groups}.of(row0 + at);
    __syncthreads();

    auto* tile = reinterpret_cast<Tile::Sum*>(stages);
    auto out = [&](auto place_of_row) {           // the sums of the rows that have a place
        if (vectors) {
            NO_UNROLL for (int i = threadIdx.x; i < TILE * TILE / 8; i += Tile::threads) {
                const int row = i / (TILE / 8), col = i % (TILE / 8) * 8, place = place_of_row(row0 + row);
                if (place < 0 || col0 + col >= n) continue;
                const i64 off = place * y_m + col0 + col;
                float v[8];
                Vec<Tile::Sum, 8>::load(tile + row * (TILE + 8) + col).get(v);
                fuse_epilogue(v, off, col0 + col);
                Vec<T, 8>::of(v).store(y + off);
            }
            return;
        }
        NO_UNROLL for (int i = threadIdx.x; i < TILE * TILE; i += Tile::threads) {
            const int row = along_m ? i % TILE : i / TILE, col = along_m ? i / TILE : i % TILE;
            const int place = place_of_row(row0 + row);
            if (place < 0 || col0 + col >= n) continue;
            const i64 off = place * y_m + (col0 + col) * y_n;
            float v[1] = {tile[row * (TILE + 8) + col]};
            fuse_epilogue(v, off, col0 + col);
            y[off] = from_acc<T>(v[0]);
        }
    };
    // The last time round nothing is multiplied: then the places that no row is scattered to become 0.
    NO_UNROLL for (int row = row0, end; row < last || rows_of && row == last; row = end) {
        const bool is_rest = row == last;
        const int group = is_rest ? -1 : owners[row - row0];
        for (end = row + 1; end < last && owners[end - row0] == group;) ++end;
        unsigned expert;
        experts.divmod(max(group, 0), expert);
        const int depth = group < 0 ? 0 : k;
        struct {
            Tokens<Tile> a;
            Panel<T, TILE, Tile::threads, W_MAJOR::k_major> b;
            DEVICE void load_a(int step, unsigned stage) { a.load(step, stage); }
            DEVICE void load_b(int step, unsigned stage) { b.load(step, stage + Tile::a_bytes); }
            DEVICE void ahead(int) {}
        } source = {{x, x_step, depth}, {w + expert * w_e, w_step, col0, n, 0, depth}};
        UNROLL for (int i = 0; i < Tokens<Tile>::copies; ++i) {
            const int mine = row0 + int(threadIdx.x) / CHUNKS + i * Tokens<Tile>::apart;
            int token = mine >= row && mine < end && !is_rest ? mine : -1;
            if (index && !rows_of && token >= 0) token = index[mine * index_step];
            source.a.token[i] = unsigned(token) < unsigned(tokens) ? token : -1;
        }
        MmaSums<Tile> sums = {};
        mma_main<Tile>(sums, shared, ceil_div(depth, Tile::k), KMajorA<Tile>(shared, warp_m, lane),
                       W_MAJOR::Fragments<Tile>(shared, warp_n, lane), source);
        spill_sums<Tile>(tile, sums, warp_m, warp_n, lane);
        out([&](int at) {
            if (is_rest) return at < m && rows_of[at] == 0 ? at : -1;
            if (at < row || at >= end) return -1;
            if (!rows_of) return at;
            const int place = place_of(index[at * index_step], slot[at * slot_step], top_k, m);
            return place >= 0 && rows_of[place] == at + 1 ? place : -1;
        });
        __syncthreads();
    }
}
