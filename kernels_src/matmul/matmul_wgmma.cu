/*@kernel
name    = "matmul_wgmma_{T}_{TILE_M}x{TILE_N}_{A_MAJOR}_{B_MAJOR}"
about   = """Batched matrix product on Hopper's tensor cores (TMA, wgmma, f32 sums); \
             rows or columns contiguous, 16-byte strides; the depth may be split."""
T       = ["f16", "bf16"]
TILE_M  = [128, 64]
TILE_N  = [256, 192, 128, 64]
A_MAJOR = ["ak", "am"]
B_MAJOR = ["bk", "bn"]
when    = ["TILE_M == 128 or TILE_N in (128, 256)"]
targets = ["sm_90a"]
params  = ["const CUtensorMap a", "const CUtensorMap b", "const CUtensorMap boxes", "T* c", "float* parts",
           "float alpha", "float beta", "int m", "int n", "int k", "int split_k", "int splits",
           "int team", "int cast", "int share", "int alone", "int rest", "Array<FastDiv, 5> order",
           "FastDiv steps", "FastDiv lanes", "int c_form", "int c_along_m",
           "Array<int, 3> a_moves", "Array<int, 3> b_moves", "int64_t c_m", "int64_t c_n",
           "Array<FastDiv, 6> batch", "Array<int64_t, 6> c_batch", "Fuse fuse"]
block   = [384, 1, 1]
grid    = ["blocks", 1, 1]
cluster = ["team * cast", 1, 1]
cooperative = "share"
smem    = "33024 + 1024 + 198400 // ((TILE_M + TILE_N) * 128) * ((TILE_M + TILE_N) * 128)"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "split_k % {line(T)} == 0", "split_k * splits * team >= k",
           "is_tile_order(order, ceil_div(m, TILE_M * cast), ceil_div(n, TILE_N), order[4])",
           "split_k * (splits * team - 1) < k", "team >= 1",
           "batch[3] * batch[4] * batch[5] == 1",
           "ceil_div(m, TILE_M) * ceil_div(n, TILE_N) * order[4] * splits < 2147483648",
           "share >= 0", "share == 0 or splits == 1 and team == 1 and parts == 1",
           "cast == 1 or cast == 2 and team == 1 and share == 0 and TILE_M + TILE_N == 384",
           "blocks % (team * cast) == 0",
           "ceil_div(k, {line(T)}) <= steps", "0 <= alone", "0 <= rest",
           "steps == ceil_div(k, {line(T)}) or steps < ceil_div(k, {line(T)}) + share and steps % share == 0",
           "share * blocks >= rest * lanes",
           "share * blocks < 2147483648", "blocks % lanes == 0 or share == 0",
           """alone + rest // steps * lanes == \
              ceil_div(m, TILE_M * cast) * ceil_div(n, TILE_N) * order[4] * splits""",
           "rest % steps == 0", "share > 0 or rest == 0"]
marks   = ["ahead", "epilogue", "pairs"]
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
               if (T, TILE_M, TILE_N, A_MAJOR, B_MAJOR) == (f16, 64, 128, 'ak', 'bk') else ''}""",
            """{'matmul a=264x136@' + ('136,1' if A_MAJOR == 'ak' else '1,264') + \
               ' b=136x264@' + ('1,136' if B_MAJOR == 'bk' else '264,1') + ' c=264x264' \
               if TILE_M + TILE_N == 384 else ''} \
               {T if TILE_M + TILE_N == 384 else ''}"""]
@*/
// A block takes tiles of TILE_M x TILE_N one after the other, over `split_k` of the depth. ak, bk: the
// depth is contiguous; am, bn: the rows of a, the columns of b. a_moves, b_moves: 0 where all matrices along
// a batch dim are one. Parts as in matmul_simt. c_form: 0 elements, 1 rows are whole vectors of 8, 2 they
// are and `boxes` is c's map (else any map). Only the first three sizes of `batch` may be above 1. cast: as
// tile/wgmma.cuh has it.
#include "matmul/matrices.cuh"
#include "tile/wgmma_wide.cuh"

extern "C" __global__ __launch_bounds__(384, 1) void KERNEL(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ CUtensorMap boxes, T* c, float* parts, float alpha, float beta, int m, int n,
    int k, int split_k, int splits, int team, int cast, int share, int alone, int rest,
    TileDivisors order, FastDiv steps, FastDiv lanes, int c_form, int c_along_m, Array<int, 3> a_moves,
    Array<int, 3> b_moves, i64 c_m, i64 c_n, Array<FastDiv, BATCH_DIMS> batch, BatchSteps c_batch,
    Fuse fuse) {
    using Tile = WgmmaTile<T, TILE_M, TILE_N>;
    using A = WgmmaPanel<T, TILE_M, A_MAJOR::k_major>;
    using B = WgmmaPanel<T, TILE_N, B_MAJOR::k_major>;
    extern __shared__ unsigned char shared[];
    Matrices<Tile, A, B> source = {a, b, a_moves, b_moves, batch, c_batch};
    const WgmmaOut<Tile, T> to = {c, share ? nullptr : parts, alpha, beta, m, n, c_form, c_along_m, c_m, c_n};
    const int of_cast = source.may_cast ? cast : 1;
    wgmma_blocks<Tile, A, B>(
        shared, source, TileOrder<Tile>{order, m, splits, of_cast},
        Stream<Tile>{{k, split_k, team, of_cast}, parts, share, alone, rest, steps, lanes}, boxes, to);
}
