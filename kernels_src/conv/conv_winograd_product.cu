/*@kernel
name   = "conv_winograd_product_{TILE}"
about  = "The products at every point of Winograd's tiles: a batch of matrix products in f32, depth first."
TILE   = ["t128x128", "t128x64", "t64x64", "t32x32"]
params = ["const float* a", "const float* b", "float* c", "int m", "int n", "int k", "int along_m"]
block  = [256, 1, 1]
grid   = ["tiles_m * tiles_n * points", 1, 1]
extra  = ["tiles_m", "tiles_n", "points"]
needs  = ["m >= 1", "n >= 1", "k >= 1", "m % 4 == 0", "n % 4 == 0",
          "tiles_m * tiles_n * points < 2147483648"]
problems = ["conv_fprop n2c5h7w6 k6r3s3 pad1 f32",
            "conv_fprop n1c40h25w25 k70r3s3 pad1 f32 nhwc",
            "conv_fprop n1c17h41w33 k140r3s3 pad1 f32"]
@*/
// c[point][m][n] (or c[point][n][m]: along_m) = sum over k of a[point][k][m] * b[point][k][n]. Rows of all
// three are whole vectors of 4. A block makes one tile of one point; blocks that share rows of a are
// neighbours.
#include "tile/simt.cuh"

namespace cydnn {

// A thread's part of a k x Size tile on its way from memory to shared memory: vectors of 4 along the rows.
template <int K, int Size> struct Strip {
    static constexpr int count = K * Size / 4, each = (count + 255) / 256;
    Vec<float, 4> held[each];
    DEVICE void load(const float* from, int size, int first, int depth) {
        UNROLL for (int i = 0; i < each; ++i) {
            const int e = threadIdx.x + 256 * i, at = e / (Size / 4), col = first + e % (Size / 4) * 4;
            held[i] = {};
            if (at < depth && col < size && e < count)
                held[i] = Vec<float, 4>::load_nc(from + i64(at) * size + col);
        }
    }
    template <int Pitch> DEVICE void store(float (&tile)[K][Pitch]) const {
        UNROLL for (int i = 0; i < each; ++i) {
            const int e = threadIdx.x + 256 * i;
            if (e < count) held[i].store(&tile[e / (Size / 4)][e % (Size / 4) * 4]);
        }
    }
};

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256, 2) void KERNEL(
    const float* a, const float* b, float* c, int m, int n, int k, int along_m) {
    using S = Simt<float, TILE>;
    __shared__ typename S::Shared tiles;

    const unsigned tiles_n = ceil_div(n, S::n), tiles_m = ceil_div(m, S::m);
    const int col0 = blockIdx.x % tiles_n * S::n, row0 = blockIdx.x / tiles_n % tiles_m * S::m;
    const i64 point = blockIdx.x / tiles_n / tiles_m;
    a += point * k * m, b += point * k * n;

    Strip<S::k, S::m> pa;
    Strip<S::k, S::n> pb;
    float acc[S::FM][S::FN];
    S::clear(acc);
    pa.load(a, m, row0, k), pb.load(b, n, col0, k);
    pa.store(tiles.a[0]), pb.store(tiles.b[0]);
    __syncthreads();
    int buffer = 0;
    NO_UNROLL for (int left = k - S::k;; left -= S::k) {
        const bool more = left > 0;
        if (more) {                                                // in flight while this step is multiplied
            a += i64(S::k) * m, b += i64(S::k) * n;
            pa.load(a, m, row0, left), pb.load(b, n, col0, left);
        }
        S::multiply(tiles, buffer, acc);
        if (!more) break;
        buffer ^= 1;
        pa.store(tiles.a[buffer]), pb.store(tiles.b[buffer]);
        __syncthreads();
    }

    // Blocks of W x W neighbours: W vectors each, one way or the other.
    constexpr int W = S::WM;
    static_assert(S::WM == S::WN, "blocks must be square");
    c += point * m * n;
    UNROLL for (int i = 0; i < S::FM; i += W)
        UNROLL for (int j = 0; j < S::FN; j += W) {
            const int row = row0 + S::thread_m() * W + i * 16, col = col0 + S::thread_n() * W + j * 16;
            if (row >= m || col >= n) continue;
            UNROLL for (int line = 0; line < W; ++line) {
                Vec<float, W> v;
                UNROLL for (int e = 0; e < W; ++e)
                    v[e] = along_m ? acc[i + e][j + line] : acc[i + line][j + e];
                v.store(c + (along_m ? i64(col + line) * m + row : i64(row + line) * n + col));
            }
        }
}
