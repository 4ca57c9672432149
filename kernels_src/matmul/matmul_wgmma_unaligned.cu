/*@kernel
name    = "matmul_wgmma_unaligned_{T}_{A_MAJOR}_{B_MAJOR}"
about   = """Batched matrix product on Hopper's tensor cores (wgmma, f32 sums) of operands whose rows or \
             columns are contiguous and begin anywhere; the depth may be split."""
T       = ["f16", "bf16"]
A_MAJOR = ["ak", "am"]
B_MAJOR = ["bk", "bn"]
targets = ["sm_90a"]
params  = ["const T* a", "const T* b", "T* c", "float* parts", "float alpha", "float beta", "int m", "int n",
           "int k", "int split_k", "int splits", "int share", "int alone", "int rest",
           "Array<FastDiv, 5> order", "FastDiv steps", "FastDiv lanes", "int c_form", "int c_along_m",
           "int64_t a_step", "int64_t b_step", "int a_packed", "int b_packed", "int64_t c_m", "int64_t c_n",
           "Array<FastDiv, 6> batch", "Array<int64_t, 6> a_batch", "Array<int64_t, 6> b_batch",
           "Array<int64_t, 6> c_batch", "Fuse fuse"]
block   = [512, 1, 1]
grid    = ["blocks", 1, 1]
cooperative = "share"
smem    = "33024 + 1024 + 3 * 32768 + 2 * 2 * 18432"
extra   = ["blocks"]
needs   = ["m >= 1", "n >= 1", "k >= 1", "split_k % 64 == 0", "split_k * splits >= k",
           "split_k * (splits - 1) < k", "splits == 1 or parts == 1", "c_form in (0, 1)",
           "is_tile_order(order, ceil_div(m, 128), ceil_div(n, 128), order[4])",
           "batch[3] * batch[4] * batch[5] == 1",
           "ceil_div(m, 128) * ceil_div(n, 128) * order[4] * splits < 2147483648",
           "share >= 0", "share == 0 or splits == 1 and parts == 1",
           "ceil_div(k, 64) <= steps", "0 <= alone", "0 <= rest",
           "steps == ceil_div(k, 64) or steps < ceil_div(k, 64) + share and steps % share == 0",
           "share * blocks >= rest * lanes",
           "share * blocks < 2147483648", "blocks % lanes == 0 or share == 0",
           """alone + rest // steps * lanes == \
              ceil_div(m, 128) * ceil_div(n, 128) * order[4] * splits""",
           "rest % steps == 0", "share > 0 or rest == 0"]
marks   = ["epilogue"]
problems = ["""matmul a=37x135:{T}@{'135,1' if A_MAJOR == 'ak' else '1,37'} \
               b=135x157:{T}@{'1,135' if B_MAJOR == 'bk' else '157,1'} c=37x157:{T}""",
            """matmul a=133x77:{T}@{'81,1' if A_MAJOR == 'ak' else '1,139'} \
               b=77x131:{T}@{'1,83' if B_MAJOR == 'bk' else '141,1'} c=133x131:{T}@1,133""",
            """matmul a=2x3x9x523:{T}@{'14121,4707,523,1' if A_MAJOR == 'ak' else '15690,5230,1,10'} \
               b=2x1x523x8:{T}@{'4184,4184,1,523' if B_MAJOR == 'bk' else '4707,4707,9,1'} c=2x3x9x8:{T}"""]
@*/
// As matmul_wgmma, in tiles of 128 x 128. a_step, b_step: elements between rows, or between columns, where
// their elements are neighbours; a_packed, b_packed: nothing else is between.
#include "matmul/by_hand.cuh"

extern "C" __global__ __launch_bounds__(512, 1) void KERNEL(
    const T* a, const T* b, T* c, float* parts, float alpha, float beta, int m, int n, int k, int split_k,
    int splits, int share, int alone, int rest, TileDivisors order, FastDiv steps, FastDiv lanes, int c_form,
    int c_along_m, i64 a_step, i64 b_step, int a_packed, int b_packed, i64 c_m, i64 c_n,
    Array<FastDiv, BATCH_DIMS> batch, BatchSteps a_batch, BatchSteps b_batch, BatchSteps c_batch,
    Fuse fuse) {
    using Tile = WgmmaTile<T, 128, 128, BY_GROUP, 128, 3>;
    constexpr bool a_in = A_MAJOR::k_major, b_in = B_MAJOR::k_major;
    extern __shared__ unsigned char shared[];
    const Lines rows = {int(sizeof(T)) * a_step, a_in ? m : k, a_in ? k : m, a_packed};
    const Lines columns = {int(sizeof(T)) * b_step, b_in ? n : k, b_in ? k : n, b_packed};
    ByHand<T, Tile, a_in, b_in> source = {a, b, batch, a_batch, b_batch, c_batch,
                                          WgmmaRing<Tile>(shared).way_out(2) + 256, {rows}, {columns}};
    const WgmmaOut<Tile, T, false> to = {c, share ? nullptr : parts, alpha, beta, m, n, c_form, c_along_m,
                                         c_m, c_n};
    wgmma_blocks<Tile, WgmmaPanel<T, 128, a_in>, WgmmaPanel<T, 128, b_in>>(
        shared, source, TileOrder<Tile>{order, m, splits},
        Stream<Tile>{{k, split_k, 1}, parts, share, alone, rest, steps, lanes}, NoBoxes(), to);
}
