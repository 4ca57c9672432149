/*@kernel
name    = "matmul_mma_{T}_{TILE}_{A_MAJOR}_{B_MAJOR}"
about   = """Batched matrix product on tensor cores (mma.sync, f32 sums); \
             rows or columns contiguous, 16-byte aligned; the depth may be split."""
T       = ["f16", "bf16"]
TILE    = [128, 64]
A_MAJOR = ["ak", "am"]
B_MAJOR = ["bk", "bn"]
targets = ["sm_80"]
params  = ["const T* a", "const T* b", "T* c", "float* parts", "float alpha", "float beta",
           "int m", "int n", "int k", "int split_k", "int batches", "int c_vectors", "int c_along_m",
           "int64_t a_step", "int64_t b_step", "int64_t c_m", "int64_t c_n",
           "Array<FastDiv, 6> batch", "Array<int64_t, 6> a_batch", "Array<int64_t, 6> b_batch",
           "Array<int64_t, 6> c_batch", "Fuse fuse"]
block   = [128, 1, 1]
grid    = ["ceil_div(m, TILE) * ceil_div(n, TILE) * batches * splits", 1, 1]
smem    = "3 * (TILE + TILE) * 64 * 2"
extra   = ["splits"]
needs   = ["m >= 1", "n >= 1", "split_k % {line(T)} == 0",
           "ceil_div(m, TILE) * ceil_div(n, TILE) * batches * splits < 2147483648"]
marks   = ["epilogue"]
problems = ["""matmul a=5x0:{T}@{'8,1' if A_MAJOR == 'ak' else '1,8'} \
               b=0x8:{T}@{'1,8' if B_MAJOR == 'bk' else '8,1'} c=5x8:{T}""",
            """matmul a=37x104:{T}@{'104,1' if A_MAJOR == 'ak' else '1,40'} \
               b=104x20:{T}@{'1,104' if B_MAJOR == 'bk' else '24,1'} c=37x20:{T}""",
            """matmul a=2x81x72:{T}@6912,{'72,1' if A_MAJOR == 'ak' else '1,88'} \
               b=2x72x80:{T}@5760,{'1,72' if B_MAJOR == 'bk' else '80,1'} c=2x81x80:{T}@8448,88,1""",
            """matmul a=113x264:{T}@{'264,1' if A_MAJOR == 'ak' else '1,120'} \
               b=264x112:{T}@{'1,264' if B_MAJOR == 'bk' else '112,1'} c=113x112:{T}@1,113""",
            """{'matmul a=2x2x2x2x2x2x3x8 b=2x2x2x2x2x2x8x8@512,256,128,64,1024,2048,1,8 \
               c=2x2x2x2x2x2x3x8@24,48,96,192,384,768,8,1' if A_MAJOR == 'ak' and B_MAJOR == 'bk' else ''} \
               {T if A_MAJOR == 'ak' and B_MAJOR == 'bk' else ''}""",
            """matmul a={8 * TILE + 16}x8:{T}\
               @{8 if A_MAJOR == 'ak' else 1},{1 if A_MAJOR == 'ak' else 8 * TILE + 16} \
               b=8x{TILE + 8}:{T}@{1 if B_MAJOR == 'bk' else TILE + 8},{8 if B_MAJOR == 'bk' else 1}"""]
@*/
// A block makes one tile of one matrix over `split_k` of the depth, by the pipeline of tile/mma.cuh. ak,
// bk: the depth is contiguous and a_step, b_step go to the next row (column of b); am, bn: the reverse.
// Parts as in matmul_simt. Blocks go through tiles in bands of 8 rows, so that those that run together
// share operands in the L2 cache.
#include "tile/store.cuh"
#include "matmul/batch.cuh"
#include "tile/panel.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* a, const T* b, T* c, float* parts, float alpha, float beta, int m, int n, int k, int split_k,
    int batches, int c_vectors, int c_along_m, i64 a_step, i64 b_step, i64 c_m, i64 c_n,
    Array<FastDiv, BATCH_DIMS> batch, BatchSteps a_batch, BatchSteps b_batch, BatchSteps c_batch, Fuse fuse) {
    using Tile = MmaTile<T, TILE, TILE>;
    extern __shared__ __align__(128) unsigned char stages[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_m = warp / Tile::warps_n, warp_n = warp % Tile::warps_n;

    const unsigned tiles_m = ceil_div(m, TILE), tiles_n = ceil_div(n, TILE);
    const unsigned in_matrix = blockIdx.x % (tiles_m * tiles_n), rest = blockIdx.x / (tiles_m * tiles_n);
    const unsigned band = in_matrix / (8 * tiles_n), rows = min(8u, tiles_m - 8 * band);
    const unsigned in_band = in_matrix - band * 8 * tiles_n;
    const int row0 = (8 * band + in_band % rows) * TILE, col0 = in_band / rows * TILE;
    const unsigned matrix = rest % batches, split = rest / batches;
    const int begin = split * split_k, end = min(i64(begin) + split_k, i64(k));
    i64 a_off, b_off, c_off;
    batch_offsets(matrix, batch, a_batch, b_batch, c_batch, a_off, b_off, c_off);

    struct {
        Panel<T, TILE, Tile::threads, A_MAJOR::k_major> a;
        Panel<T, TILE, Tile::threads, B_MAJOR::k_major> b;
        DEVICE void load_a(int step, unsigned stage) { a.load(step, stage); }
        DEVICE void load_b(int step, unsigned stage) { b.load(step, stage + Tile::a_bytes); }
        DEVICE void ahead(int) {}
    } source = {{a + a_off, a_step, row0, m, begin, end}, {b + b_off, b_step, col0, n, begin, end}};
    MmaSums<Tile> sums = {};
    const unsigned shared = shared_address(stages);
    mma_main<Tile>(sums, shared, ceil_div(end - begin, Tile::k),
                      A_MAJOR::Fragments<Tile>(shared, warp_m, lane),
                      B_MAJOR::Fragments<Tile>(shared, warp_n, lane), source);

    auto* tile = reinterpret_cast<Tile::Sum*>(stages);
    spill_sums<Tile>(tile, sums, warp_m, warp_n, lane);
    if (parts) {
        parts += (i64(split) * batches + matrix) * m * n;
        _Pragma("unroll 4") for (int first = 0; first < TILE * TILE; first += Tile::threads) {
            const int i = first + threadIdx.x, row = i / TILE, col = i % TILE;
            if (row0 + row < m && col0 + col < n)
                parts[i64(row0 + row) * n + col0 + col] = tile[row * (TILE + 8) + col];
        }
    } else if (c_vectors) {
        _Pragma("unroll 2") for (int first = 0; first < TILE * TILE / 8; first += Tile::threads) {
            const int i = first + threadIdx.x, row = i / (TILE / 8), col = i % (TILE / 8) * 8;
            if (row0 + row >= m || col0 + col >= n) continue;
            const i64 off = c_off + (row0 + row) * c_m + col0 + col;
            float v[8], old[8];
            Vec<Tile::Sum, 8>::load(tile + row * (TILE + 8) + col).get(v);
            if (beta != 0.f) Vec<T, 8>::load(c + off).get(old);
            UNROLL for (int e = 0; e < 8; ++e)
                v[e] = beta != 0.f ? alpha * v[e] + beta * old[e] : alpha * v[e];
            fuse_epilogue(v, off, col0 + col);
            Vec<T, 8>::of(v).store(c + off);
        }
    } else {
        NO_UNROLL for (int i = threadIdx.x; i < TILE * TILE; i += Tile::threads) {
            const int row = c_along_m ? i % TILE : i / TILE, col = c_along_m ? i / TILE : i % TILE;
            if (row0 + row >= m || col0 + col >= n) continue;
            const i64 off = c_off + (row0 + row) * c_m + (col0 + col) * c_n;
            float v[1] = {blend(alpha, float(tile[row * (TILE + 8) + col]), beta, c + off)};
            fuse_epilogue(v, off, col0 + col);
            c[off] = from_acc<T>(v[0]);
        }
    }
}
