/*@kernel
name   = "conv_depthwise_slide_wgrad_k{K}s{S}_{T}"
about  = """Filter gradient of a depthwise convolution of channels-last images, filters of {K}x{K}, \
            stride {S}: all taps of two channels are sums of a thread; conv_wgrad_simt_sum adds \
            up the splits."""
T      = ["f32", "f16", "bf16"]
K      = [3, 5, 7]
S      = [1, 2]
targets = ["sm_80"]
params = ["const T* x", "const T* dy", "float* parts", "int channels", "int strips", "int split_strips",
          "int rows", "FastDiv across", "FastDiv down", "Array<int, 2> out", "Array<int, 2> size",
          "Array<int, 2> pad", "int64_t x_n", "Array<int64_t, 2> x_s", "int64_t dy_n",
          "Array<int64_t, 2> dy_s"]
block  = [128, 1, 1]
grid   = ["ceil_div(channels, 32) * splits", 1, 1]
extra  = ["splits"]
smem   = """8 * (((K + S * (3 if sizeof(T) < 4 else 1)) * (((8 if S == 1 and K < 7 else 4) - 1) * S + K)
           + (8 if S == 1 and K < 7 else 4) * (4 if sizeof(T) < 4 else 2)) * 32 * sizeof(T) + 64)"""
needs  = ["channels % (16 // sizeof(T)) == 0", "channels >= 1", "rows >= 1",
          "splits == ceil_div(strips, split_strips)"]
problems = ["conv_wgrad n2c40h11w13 k40r{K}s{K} pad={K // 2} stride={S} groups=40 {T} nhwc",
            """conv_wgrad n1c8h9w18 k8r{K}s{K} pre_pad=0,{K // 2} post_pad=1,{K // 2} stride={S} groups=8 \
               mode=convolution {T} nhwc"""]
@*/
// A strip is WIDTH outputs along a row of dy and `rows` of them down. Each of 8 units walks
// down strips; the rows of x that a row of dy meets are in its ring. The 8 sums of a tap are added in order
// and go to parts[split][channel][tap].
#include "conv/depthwise.cuh"

namespace cydnn {

constexpr bool IS_LARGE = sizeof(T) == 4;
constexpr int WIDTH = S == 1 && K < 7 ? 8 : 4, IN = (WIDTH - 1) * S + K;
constexpr int AHEAD = IS_LARGE ? 1 : 3, RING = K + S * AHEAD;        // steps; rows of x in shared memory
constexpr int ROW = Window<T, IN>::BYTES, OUT_ROW = Window<T, WIDTH>::BYTES, WARPS = LANES * UNITS / 32;

}  // namespace cydnn

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const T* x, const T* dy, float* parts, int channels, int strips, int split_strips, int rows,
    FastDiv across, FastDiv down, Array<int, 2> out, Array<int, 2> size, Array<int, 2> pad, i64 x_n,
    Array<i64, 2> x_s, i64 dy_n, Array<i64, 2> dy_s) {
    extern __shared__ __align__(16) char memory[];
    char* ring = memory + threadIdx.x / LANES * (RING * ROW + (AHEAD + 1) * OUT_ROW + 64);
    char* out_ring = ring + RING * ROW;
    const unsigned blocks_c = ceil_div(channels, WIDE), to = shared_address(ring);
    const int first = blockIdx.x % blocks_c * WIDE, lane = threadIdx.x % LANES, split = blockIdx.x / blocks_c;
    const i64 begin = i64(split) * split_strips, end = min(begin + split_strips, i64(strips));

    float sums[K][K][PAIR] = {};
    NO_UNROLL for (i64 item = begin; item < end; item += UNITS) {
        const i64 mine = item + threadIdx.x / LANES;
        const bool is_strip = mine < end;                            // the others walk along over zeros
        unsigned strip, chunk;
        const i64 n = down.divmod(across.divmod(unsigned(is_strip ? mine : 0), strip), chunk);
        const int q0 = strip * WIDTH, p0 = chunk * rows;
        const Window<T, IN> window(x + n * x_n, p0 * S - pad[0], q0 * S - pad[1], is_strip ? size[0] : 0,
                                   size[1], first, channels, x_s);
        const Window<T, WIDTH> outputs(dy + n * dy_n, p0, q0, is_strip ? min(p0 + rows, out[0]) : 0, out[1],
                                       first, channels, dy_s);
        auto bring = [&](int step, int slot, int out_slot) {         // S rows of x and one of dy
            if (step < rows) {
                UNROLL for (int u = 0; u < S; ++u) {
                    const int at = slot + u < RING ? slot + u : slot + u - RING;
                    window.bring(K - S + step * S + u, to + at * ROW);
                }
                outputs.bring(step, to + RING * ROW + out_slot * OUT_ROW);
            }
            cp_async_commit();
        };
        __syncwarp();                                                // the last strip's rows have been read
        UNROLL for (int r = 0; r < K - S; ++r) window.bring(r, to + r * ROW);
        UNROLL for (int k = 0; k < AHEAD; ++k) bring(k, K - S + k * S, k);
        int slot = 0, out_slot = 0;                                  // of the first row of x; of dy's row
        NO_UNROLL for (int k = 0; k < rows; ++k) {
            cp_async_wait<AHEAD - 1>();
            __syncwarp();
            const int next = slot + K - S + AHEAD * S;
            bring(k + AHEAD, next < RING ? next : next - RING, out_slot == 0 ? AHEAD : out_slot - 1);
            if (outputs.is_inside(k)) {
                float g[WIDTH][PAIR];
                read_row<T>(out_ring + out_slot * OUT_ROW, g);
                UNROLL for (int r = 0; r < K; ++r) {
                    float values[IN][PAIR];
                    read_row<T>(ring + (slot + r < RING ? slot + r : slot + r - RING) * ROW, values);
                    UNROLL for (int j = 0; j < WIDTH; ++j) {
                        if (q0 + j >= out[1]) break;                 // a strip begins inside
                        UNROLL for (int s = 0; s < K; ++s)
                            UNROLL for (int c = 0; c < PAIR; ++c)
                                sums[r][s][c] += g[j][c] * values[j * S + s][c];
                    }
                }
            }
            slot = slot + S < RING ? slot + S : slot + S - RING;
            out_slot = out_slot == AHEAD ? 0 : out_slot + 1;
        }
    }

    float(*shared)[K][WIDE] = reinterpret_cast<float(*)[K][WIDE]>(memory);          // [warp][tap][channel]
    const int mine = threadIdx.x % WIDE;
    UNROLL for (int r = 0; r < K; ++r) {
        __syncthreads();                                             // what is there has been read
        UNROLL for (int s = 0; s < K; ++s)
            UNROLL for (int c = 0; c < PAIR; ++c) {
                const float sum = sums[r][s][c] + __shfl_down_sync(~0u, sums[r][s][c], LANES);
                if (threadIdx.x % 32 < LANES) shared[threadIdx.x / 32][s][lane * PAIR + c] = sum;
            }
        __syncthreads();
        if (first + mine >= channels) continue;
        for (int s = threadIdx.x / WIDE; s < K; s += WARPS) {
            float sum = 0.f;
            UNROLL for (int i = 0; i < WARPS; ++i) sum += shared[i][s][mine];
            parts[(i64(split) * channels + first + mine) * K * K + r * K + s] = sum;
        }
    }
}
