/*@kernel
name   = "norm_bwd_rows_{UNITS}_{LANES}_{CLUSTER}"
about  = """Gradients of layer or RMS norm of any types, first of two launches: dx in one read of x and dy, \
            rows in the registers of {CLUSTER} blocks; a share of dscale and dbias goes to the workspace."""
UNITS  = [16, 32, 64, 128, 256, 512, 1024, 2048]
LANES  = [1, 8]
CLUSTER = [1, 2, 4, 8]
targets = ["sm_75", "sm_80", "sm_90"]         # sm_80 rounds to bf16 in one instruction
when   = ["(sm == 90) == (CLUSTER > 1)", "CLUSTER == 1 or UNITS == 2048", "sm >= 80 or UNITS < 1024"]
params = ["float* part", "int rows", "int cols", "int width", "int64_t x_row", "int64_t dy_row",
          "int64_t dx_row", "int is_rms", "int has_statistics", "Number<float> epsilon",
          "const void* x_ahead", "const void* dy_ahead", "int x_bytes", "int dy_bytes", "int group_rows",
          "int group_blocks", "Fuse fuse"]
extra  = ["groups"]
block  = ["128 if UNITS <= 128 else UNITS if UNITS <= 512 else UNITS // 2", 1, 1]
grid   = ["groups * group_blocks * CLUSTER", 1, 1]
smem   = "64 * UNITS if UNITS >= 1024 else 0"
needs  = ["1 <= rows < 2**30", "1 <= width <= 8 * UNITS", "1 <= cols <= width * CLUSTER", "cols % LANES == 0",
          "width % LANES == 0", "1 <= groups * group_blocks < 2**31 // CLUSTER",
          "rows == groups * group_rows"]
marks  = ["load_x", "load_dy", "load_scale", "load_mean", "load_rstd", "store"]
problems = ["norm_bwd 9x{(UNITS * 8 - 8) * CLUSTER} f16",
            "norm_bwd 3x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)} mode=rms bf16",
            """norm_bwd x=3x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f16 \
               dy=3x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f16 \
               scale=1x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f32 \
               dx=3x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f16 \
               dscale=1x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f32 \
               dbias=1x{UNITS * 8 * CLUSTER - 8 - (LANES == 1)}:f32"""]
@*/
// Blocks, or clusters, stride over the rows of a group, which has its own scale. A thread keeps its columns,
// and so their sums: in registers, or, of long rows, in shared memory at places that no other thread reads,
// and then it reads scale again for every row. What the next row needs is under way while this one waits for
// its sums: its statistics come to registers, the row to L2. The teams of a block add their sums in shared
// memory, one behind the other: part[group][block][dscale, dbias][cols].
#include "lib/number.cuh"
#include "row.cuh"

constexpr int THREADS = UNITS == 16 ? 16 : UNITS <= 64 ? 32 : UNITS <= 512 ? UNITS : UNITS / 2;
constexpr int BLOCK = THREADS < 128 ? 128 : THREADS, TEAMS = BLOCK / THREADS;
constexpr int HELD = 8 * UNITS / THREADS / LANES;                    // accesses of a thread
constexpr bool LONG = UNITS >= 1024;
constexpr int RESIDENT = UNITS == 2048 ? 1 : UNITS == 64 ? 4 : 1024 / BLOCK;

struct Pair { float a, b; };
struct Both {
    DEVICE Pair operator()(const Pair& p, const Pair& q) const { return {p.a + q.a, p.b + q.b}; }
};
DEVICE Pair row_pair(Pair p) {
    if constexpr (THREADS <= 32) return warp_reduce<THREADS>(p, Both{});
    else {
        __syncthreads();
        return block_reduce<THREADS>(p, Both{});
    }
}

// PTX ISA §prefetch: 128 bytes of what lies there, asked for by the first of their threads. No branch:
// behind one, what was loaded before would be waited for.
DEVICE void ahead(const void* tensor, i64 element, int bytes, bool valid) {
    const char* at = static_cast<const char*>(tensor) + element * bytes;
    const int asks = valid && (reinterpret_cast<unsigned long long>(at) & 127) < unsigned(LANES * bytes);
    asm volatile("{ .reg .pred %%p_at; setp.ne.s32 %%p_at, %1, 0; @%%p_at prefetch.global.L2 [%0]; }"
                 :: "l"(__cvta_generic_to_global(at)), "r"(asks));
}

struct Statistics { float mean, rstd; };
DEVICE Statistics statistics(const float (&x)[HELD][LANES], int first, int last, float share, int is_rms,
                             float epsilon, int& turn) {
    float sum = 0, mean = 0, squares = 0;
    if (!is_rms) {
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) sum += x[k][i];
        mean = over_cluster(row_sum<THREADS>(sum, true), turn, Sum{}) * share;
    }
    UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
        const float d = first + k * THREADS * LANES < last ? x[k][i] - mean : 0;
        squares = fma(d, d, squares);
    }
    squares = over_cluster(row_sum<THREADS>(squares, true), turn, Sum{});
    return {mean, 1.f / sqrtf(squares * share + epsilon)};
}

// dscale and dbias of this thread's columns.
struct Sums {
    float scale[LONG ? 1 : HELD][LANES], bias[LONG ? 1 : HELD][LANES];
    DEVICE float2& slot(int k, int i) const {
        extern __shared__ float2 kept[];
        return kept[(k * LANES + i) * THREADS + threadIdx.x];
    }
    DEVICE void start() {
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i)
            if constexpr (LONG) slot(k, i) = {0, 0};
            else scale[k][i] = bias[k][i] = 0;
    }
    DEVICE void add(int k, int i, float weighted, float plain) {
        if constexpr (LONG) {
            const float2 old = slot(k, i);
            slot(k, i) = {old.x + weighted, old.y + plain};
        } else scale[k][i] += weighted, bias[k][i] += plain;
    }
    DEVICE Pair of(int k, int i) const {
        if constexpr (LONG) return {slot(k, i).x, slot(k, i).y};
        else return {scale[k][i], bias[k][i]};
    }
};

#if CLUSTER > 1
#define CLUSTERED __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTERED
#endif

extern "C" __global__ CLUSTERED __launch_bounds__(BLOCK, RESIDENT) void KERNEL(
    float* part, int rows, int cols, int width, i64 x_row, i64 dy_row, i64 dx_row, int is_rms,
    int has_statistics, Number<float> epsilon, const void* x_ahead, const void* dy_ahead, int x_bytes,
    int dy_bytes, int group_rows, int group_blocks, Fuse fuse) {
    const int rank = blockIdx.x % CLUSTER, last = min(cols, (rank + 1) * width), step = group_blocks * TEAMS;
    const int group = blockIdx.x / CLUSTER / group_blocks, block = blockIdx.x / CLUSTER % group_blocks;
    const int team = threadIdx.x / THREADS, end = (group + 1) * group_rows;
    const int begin = rank * width + threadIdx.x % THREADS * LANES;      // this thread's first column
    const float share = 1.f / float(cols);
    int turn = 0;
    const auto column = [&](int k) { return begin + k * THREADS * LANES; };
    const auto near = [&](int k) { return min(column(k), last - LANES); };  // read, and left
    float scale[HELD][LANES];
    const auto load_scale = [&] {
        UNROLL for (int k = 0; k < HELD; ++k) {
            UNROLL for (int i = 0; i < LANES; ++i) scale[k][i] = 1;
            fuse_load_scale(scale[k], (end - 1) * x_row + near(k), end - 1, near(k));
        }
    };
    if constexpr (!LONG) load_scale();
    Sums all;
    all.start();
    const auto known = [&](int row) {
        Statistics of = {0, 0};
        fuse_load_mean(of.mean, min(row, rows - 1));
        fuse_load_rstd(of.rstd, min(row, rows - 1));
        return of;
    };
    Statistics next = {0, 0};
    const int begins = end - group_rows + block * TEAMS;
    if (has_statistics) next = known(begins + team);
    NO_UNROLL for (int first = begins; first < end; first += step) {
        const bool inside = first + team < end;                      // warps stay whole
        const unsigned row = inside ? first + team : end - 1;
        const bool goes_on = x_ahead && first + step + team < end;
        UNROLL for (int k = 0; k < HELD; ++k) {
            ahead(x_ahead, i64(row + step) * x_row + column(k), x_bytes, goes_on && column(k) < last);
            ahead(dy_ahead, i64(row + step) * dy_row + column(k), dy_bytes, goes_on && column(k) < last);
        }
        Statistics of = next;
        if (has_statistics) next = known(first + step + team);
        float x[HELD][LANES], dy[HELD][LANES];
        UNROLL for (int k = 0; k < HELD; ++k) {
            UNROLL for (int i = 0; i < LANES; ++i) x[k][i] = dy[k][i] = 0;
            if (!inside || column(k) >= last) continue;              // dx may be x or dy, written by another
            fuse_load_x(x[k], row * x_row + column(k), row, column(k));
            fuse_load_dy(dy[k], row * dy_row + column(k), row, column(k));
        }
        if (!has_statistics)
            of = statistics(x, begin, last, share, is_rms, epsilon.load(), turn);
        if constexpr (LONG) load_scale();
        Pair sums = {0, 0};
        UNROLL for (int k = 0; k < HELD; ++k) UNROLL for (int i = 0; i < LANES; ++i) {
            x[k][i] = (x[k][i] - of.mean) * of.rstd;
            all.add(k, i, dy[k][i] * x[k][i], dy[k][i]);
            dy[k][i] *= scale[k][i];
            sums = {sums.a + dy[k][i], fma(dy[k][i], x[k][i], sums.b)};
        }
        // Beyond the row dy is 0, so that x there counts nothing.
        sums = over_cluster(row_pair(sums), turn, Both{});
        const float middle = is_rms ? 0 : sums.a * share, slope = sums.b * share;
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int col = column(k);
            if (!inside || col >= last) break;
            float dx[LANES];
            UNROLL for (int i = 0; i < LANES; ++i)
                dx[i] = of.rstd * (dy[k][i] - middle - x[k][i] * slope);
            fuse_store(dx, row * dx_row + col, row, col);
        }
    }
    rows_end();
    if (!part) return;
    part += i64(blockIdx.x / CLUSTER) * 2 * cols;
    __shared__ float shown[TEAMS > 1 ? 2 * 8 * UNITS : 1];
    UNROLL for (int t = 0; t < TEAMS; ++t) {
        if (TEAMS > 1) __syncthreads();
        if (threadIdx.x / THREADS != t) continue;
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int col = column(k), at = col - rank * width;
            if (col >= last) continue;
            alignas(16) float out[2][LANES];
            UNROLL for (int i = 0; i < LANES; ++i) {
                Pair sums = all.of(k, i);
                if (t > 0) sums.a += shown[at + i], sums.b += shown[8 * UNITS + at + i];
                if (t < TEAMS - 1) shown[at + i] = sums.a, shown[8 * UNITS + at + i] = sums.b;
                out[0][i] = sums.a, out[1][i] = sums.b;
            }
            if (t == TEAMS - 1) UNROLL for (int s = 0; s < 2; ++s)
                reinterpret_cast<Vec<float, LANES>*>(out[s])->store(part + i64(s) * cols + col);
        }
    }
}
