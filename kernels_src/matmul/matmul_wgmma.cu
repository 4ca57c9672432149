/*@kernel
name    = "matmul_wgmma_{T}_{TILE_M}x{TILE_N}_{A_MAJOR}_{B_MAJOR}"
about   = """Batched matrix product on Hopper's tensor cores (TMA, wgmma, f32 sums); \
             rows or columns contiguous, 16-byte strides; the depth may be split."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 128]
A_MAJOR = ["ak", "am"]
B_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const CUtensorMap a", "const CUtensorMap b", "const CUtensorMap boxes", "T* c", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k", "int batches", "int splits",
           "int band", "int c_form", "int c_along_m", "Array<int, 3> a_moves", "Array<int, 3> b_moves",
           "int64_t c_m", "int64_t c_n", "Array<FastDiv, 6> batch", "Array<int64_t, 6> c_batch", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "split_k % 64 == 0", "split_k * splits >= k", "band >= 1",
           "split_k * (splits - 1) < k", "batch[3] * batch[4] * batch[5] == 1",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * batches * splits < 2147483648"]
marks   = ["epilogue"]
problems = ["""matmul a=37x136:{T}@{'136,1' if A_MAJOR == 'ak' else '1,40'} \
               b=136x{TILE_N - 8}:{T}@{1 if B_MAJOR == 'bk' else TILE_N},{136 if B_MAJOR == 'bk' else 1} \
               c=37x{TILE_N - 8}:{T}""",
            """matmul a=37x72:{T}@{'72,1' if A_MAJOR == 'ak' else '1,40'} \
               b=72x{TILE_N - 3}:{T}@{1 if B_MAJOR == 'bk' else TILE_N},{72 if B_MAJOR == 'bk' else 1} \
               c=37x{TILE_N - 3}:{T}@1,37""",
            """{'matmul a=2x3x9x520@' + ('14040,4680,520,1' if A_MAJOR == 'ak' else '24960,8320,1,16') + \
               ' b=2x1x520x8@' + ('4160,4160,1,520' if B_MAJOR == 'bk' else '4160,4160,8,1') + ' c=2x3x9x8' \
               if TILE_M + TILE_N == 192 else ''} {T if TILE_M + TILE_N == 192 else ''}""",
            """{'matmul a=6x20x520@' + ('10400,520,1' if A_MAJOR == 'ak' else '12480,1,24') + \
               ' b=1x520x5@' + ('2600,1,520' if B_MAJOR == 'bk' else '4160,8,1') + ' c=6x20x5' \
               if TILE_M + TILE_N == 192 else ''} {T if TILE_M + TILE_N == 192 else ''}""",
            """{'matmul a=1040x8:f16 b=8x136:f16@1,8 c=1040x136:f16' \
               if (T, TILE_M, TILE_N, A_MAJOR, B_MAJOR) == (f16, 64, 128, 'ak', 'bk') else ''}"""]
@*/
// A block takes tiles of TILE_M x TILE_N one after the other, over `split_k` of the depth. ak, bk: the
// depth is contiguous; am, bn: the rows of a, the columns of b. a_moves, b_moves: 0 where all matrices along
// a batch dim are one. Parts as in matmul_simt. c_form: 0 elements, 1 rows are whole vectors of 8, 2 they
// are and `boxes` is c's map (else any map). Only the first three sizes of `batch` may be above 1.
#include "lib/epilogue.cuh"
#include "matmul/batch.cuh"
#include "tile/wgmma_store.cuh"

namespace cydnn {
struct ak { static constexpr bool k_major = true; };
struct am { static constexpr bool k_major = false; };
using bk = ak;
using bn = am;

DEVICE void batch_digits(unsigned index, const Array<FastDiv, BATCH_DIMS>& dims, int (&digits)[3]) {
    unsigned digit;
    index = dims[0].divmod(index, digit), digits[0] = digit;
    digits[2] = dims[1].divmod(index, digit), digits[1] = digit;
}
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap boxes, T* c, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int batches, int splits, int band, int c_form, int c_along_m, Array<int, 3> a_moves,
    Array<int, 3> b_moves, i64 c_m, i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps c_batch,
    Fuse fuse) {
    using Tile = WgmmaTile<TILE_M, TILE_N>;
    using A = WgmmaPanel<TILE_M, A_MAJOR::k_major>;
    using B = WgmmaPanel<TILE_N, B_MAJOR::k_major>;
    extern __shared__ unsigned char shared[];
    WgmmaRing<Tile> ring(shared);
    const TileOrder<Tile> order(m, n, band, batches, splits);
    if (threadIdx.x == 0) ring.begin(), tensor_ahead(a), tensor_ahead(b);
    __syncthreads();
    const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);             // the same for all, known to ptxas

    if (role == 0) {
        registers_give<40>();
        if (threadIdx.x == 0) NO_UNROLL for (unsigned i = blockIdx.x; i < order.count; i += gridDim.x) {
            const TileAt tile = order[i];
            const int begin = tile.split * split_k, end = min(i64(begin) + split_k, i64(k));
            int at[3], at_a[3], at_b[3];
            batch_digits(tile.matrix, batch, at);
            UNROLL for (int d = 0; d < 3; ++d) at_a[d] = at[d] * a_moves[d], at_b[d] = at[d] * b_moves[d];
            wgmma_produce(ring, (end - begin + 63) / 64, [&](int step, unsigned char* stage, uint64_t* full) {
                const int depth = begin + step * 64;
                A::load(stage, a, depth, tile.row, at_a, full);
                B::load(stage + Tile::a_bytes, b, depth, tile.col, at_b, full);
            });
        }
        return;
    }
    registers_take<232>();
    const int group = role - 1, lane = threadIdx.x % 32;
    const int group_row = Tile::groups_m == 2 ? group * 64 : 0;
    const int group_col = Tile::groups_m == 2 ? 0 : group * Tile::group_n;
    unsigned char* out = ring.way_out(group);
    NO_UNROLL for (unsigned i = blockIdx.x; i < order.count; i += gridDim.x) {
        const TileAt tile = order[i];
        const int begin = tile.split * split_k, end = min(i64(begin) + split_k, i64(k));
        const int row0 = tile.row + group_row, col0 = tile.col + group_col;
        float d[Tile::sums];
        wgmma_sums<T, Tile, A, B>(d, ring, (end - begin + 63) / 64, group);

        if (c_form == 2 && !parts && beta == 0.f) {
            int at[3];
            batch_digits(tile.matrix, batch, at);
            store_boxes<T, Tile>(d, out, boxes, row0, col0, at, alpha, group);
            continue;
        }
        if (parts) {
            float* sums = parts + (i64(tile.split) * batches + tile.matrix) * m * n;
            store_rows<Tile>(d, out, [&](const Slice& slice, int first_row, int first_col) {
                const int count = n % 8 ? 1 : 8;
                NO_UNROLL for (int e = lane * count; e < 1024; e += 32 * count) {
                    const int r = e / 64, q = e % 64, row = row0 + first_row + r, col = col0 + first_col + q;
                    if (row >= m || col >= n) continue;
                    float v[8], *to = sums + i64(row) * n + col;
                    if (count == 8) slice.get(v, r, q), Vec<float, 8>::of(v).store(to);
                    else *to = slice.get(r, q);
                }
            });
            continue;
        }
        i64 c_off, unused, same;
        batch_offsets(tile.matrix, batch, c_batch, c_batch, c_batch, unused, same, c_off);
        store_rows<Tile>(d, out, [&](const Slice& slice, int first_row, int first_col) {
            if (c_form > 0) {                                // 4 rows at once: the swizzle repeats with them
                const int r = lane / 8, q = lane % 8 * 8, row = row0 + first_row + r;
                const int col = col0 + first_col + q, rows = min(16 - r, m - row);
                i64 off = c_off + row * c_m + col;
                if (col >= n) return;
                float v[8], old[8], scale = alpha;
                if (beta != 0.f) {                           // apart: seldom asked for, and long
                    NO_UNROLL for (int e = 0; e < rows; e += 4) {
                        slice.get(v, r + e, q);
                        Vec<T, 8>::load(c + off + e * c_m).get(old);
                        UNROLL for (int x = 0; x < 8; ++x) v[x] = alpha * v[x] + beta * old[x];
                        slice.set(v, r + e, q);
                    }
                    scale = 1.f;
                }
                Slice here = slice;
                NO_UNROLL for (int e = 0; e < rows; e += 4, off += 4 * c_m, here.at += 1024) {
                    here.get(v, r, q);
                    UNROLL for (int x = 0; x < 8; ++x) v[x] *= scale;
                    fuse_epilogue(v, off, col);
                    Vec<T, 8>::of(v).store(c + off);
                }
            } else NO_UNROLL for (int e = lane; e < 1024; e += 32) {
                const int r = c_along_m ? e % 16 : e / 64, q = c_along_m ? e / 16 : e % 64;
                const int row = row0 + first_row + r, col = col0 + first_col + q;
                if (row >= m || col >= n) continue;
                const i64 off = c_off + row * c_m + col * c_n;
                float v[1] = {blend(alpha, slice.get(r, q), beta, c + off)};
                fuse_epilogue(v, off, col);
                c[off] = from_acc<T>(v[0]);
            }
        });
    }
    if (sends_boxes()) store_wait_read<0>();                 // shared memory goes with the block
}
