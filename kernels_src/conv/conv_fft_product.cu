/*@kernel
name   = "conv_fft_product_{T}_{TILE}"
about  = "One complex matrix product for each frequency: c[f] = conj(a[f])^T b[f], on CUDA cores."
T      = ["f32", "f64"]
TILE   = [64, 32]
params = ["const T* a", "const T* b", "T* c", "int rows", "int row_pitch", "int columns",
          "int depth", "int accumulate", "FastDiv tiles_m", "FastDiv tiles_n"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * frequencies", 1, 1]
extra  = ["frequencies"]
needs  = ["row_pitch % 2 == 0", "columns % 2 == 0", "rows >= 1", "rows <= row_pitch", "columns >= 2",
          "depth >= 1", "tiles_m == ceil_div(rows, TILE)", "tiles_n == ceil_div(columns, TILE)",
          "tiles_m * tiles_n * frequencies < 2147483648"]
problems = ["conv_fprop n3c3h5w6 k4r3s2 pad1 {T}",
            "conv_fprop n2c35h3w1 k{TILE + 3}r2s1 {T}",
            "conv_wgrad n3c35h2w2 k{TILE + 3}r2s2 {T}"]
@*/
// a[f][l][row], b[f][l][column], c[f][row][column]: complex numbers, re and im side by side; l < depth. A row
// of a has `row_pitch` of them. With `accumulate`, c is added to. A block makes TILE x TILE, 16 x 16 threads
// of (TILE / 16)^2 sums each: pairs of neighbours, 32 apart, so that 16 lanes read 256 bytes in a row. Depth
// goes in steps through two buffers.
#include "lib/math.cuh"

template <class Real, int Tile> struct Product {
    static constexpr int step = 512 / Tile, per = Tile / 16;       // a thread loads a pair of each operand
    using Pair = Vec<Real, 4>;
    struct alignas(16) Shared {
        Real a[2][step][2 * Tile], b[2][step][2 * Tile];
    };
    static DEVICE int place(int index, int thread) { return index / 2 * 32 + thread * 2 + index % 2; }
};

extern "C" __global__ __launch_bounds__(256, sizeof(T) == 8 ? 1 : 2) void KERNEL(
    const T* a, const T* b, T* c, int rows, int row_pitch, int columns, int depth, int accumulate,
    FastDiv tiles_m, FastDiv tiles_n) {
    using P = Product<T, TILE>;
    using Pair = typename P::Pair;
    __shared__ typename P::Shared shared;
    unsigned tile_m, tile_n;
    const i64 f = tiles_m.divmod(tiles_n.divmod(blockIdx.x, tile_n), tile_m);
    const int row0 = tile_m * TILE, column0 = tile_n * TILE;
    const int i = threadIdx.x / 16, j = threadIdx.x % 16;
    const int l = threadIdx.x / (TILE / 2), at = threadIdx.x % (TILE / 2) * 2;   // what this thread loads
    a += ((f * depth + l) * row_pitch + row0 + at) * 2, b += ((f * depth + l) * columns + column0 + at) * 2;
    const bool in_a = row0 + at < row_pitch, in_b = column0 + at < columns;

    T re[P::per][P::per] = {}, im[P::per][P::per] = {};
    Pair va, vb;
    auto load = [&](int first) {
        va = {}, vb = {};
        const bool inside = first + l < depth;
        if (inside && in_a) va = Pair::load(a + i64(first) * row_pitch * 2);
        if (inside && in_b) vb = Pair::load(b + i64(first) * columns * 2);
    };
    load(0);
    int buffer = 0;
    NO_UNROLL for (int first = 0; first < depth; first += P::step, buffer ^= 1) {
        va.store(&shared.a[buffer][l][at * 2]), vb.store(&shared.b[buffer][l][at * 2]);
        __syncthreads();
        if (first + P::step < depth) load(first + P::step);
        UNROLL for (int s = 0; s < P::step; ++s) {
            Pair fa[P::per / 2], fb[P::per / 2];
            UNROLL for (int h = 0; h < P::per / 2; ++h) {
                fa[h] = Pair::load(&shared.a[buffer][s][P::place(2 * h, i) * 2]);
                fb[h] = Pair::load(&shared.b[buffer][s][P::place(2 * h, j) * 2]);
            }
            UNROLL for (int m = 0; m < P::per; ++m)
                UNROLL for (int n = 0; n < P::per; ++n) {
                    const T ar = fa[m / 2][m % 2 * 2], ai = fa[m / 2][m % 2 * 2 + 1];
                    const T br = fb[n / 2][n % 2 * 2], bi = fb[n / 2][n % 2 * 2 + 1];
                    re[m][n] += ar * br, re[m][n] += ai * bi;
                    im[m][n] += ar * bi, im[m][n] -= ai * br;
                }
        }
    }
    UNROLL for (int m = 0; m < P::per; ++m)
        UNROLL for (int n = 0; n < P::per; n += 2) {
            const int row = row0 + P::place(m, i), column = column0 + P::place(n, j);
            if (row >= rows || column >= columns) continue;
            T* out = c + ((f * rows + row) * columns + column) * 2;
            Pair sums = {re[m][n], im[m][n], re[m][n + 1], im[m][n + 1]};
            if (accumulate) {
                const Pair old = Pair::load(out);
                UNROLL for (int e = 0; e < 4; ++e) sums[e] += old[e];
            }
            sums.store(out);
        }
}
