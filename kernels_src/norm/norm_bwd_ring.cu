/*@kernel
name    = "norm_bwd_ring_{T}_{HELD}_{LANES}_{CLUSTER}"
about   = """Gradients of layer, ada-layer or RMS norm, first of two launches: rows of x and dy come to \
             shared memory of {CLUSTER} blocks ahead of their use; a share of dscale and dbias goes to the \
             workspace."""
T       = ["f32", "f16", "bf16"]
HELD    = [2, 4]
LANES   = [8, 16, 32]
CLUSTER = [1, 2, 4, 8]
targets = ["sm_90"]
when    = ["LANES == 32 or HELD == 2 and CLUSTER == 1"]
params  = ["const T* x", "const T* dy", "float* part", "int rows", "int cols", "int width", "int64_t x_row",
           "int64_t dy_row", "int64_t dx_row", "int is_rms", "int stages", "int row_warps", "int group_rows",
           "int group_blocks", "Fuse fuse"]
extra   = ["groups", "teams"]
block   = ["32 * row_warps * teams", 1, 1]
grid    = ["groups * group_blocks * CLUSTER", 1, 1]
smem    = "row_warps * teams * stages * 512 * HELD * sizeof(T)"
needs   = ["1 <= rows < 2**30", "1 <= row_warps", "row_warps * teams <= (24 if HELD == 2 else 16)",
           "2 <= stages <= 4", "cols % 8 == 0", "width % 8 == 0",
           "1 <= width <= 8 * HELD * LANES * row_warps", "1 <= cols <= width * CLUSTER",
           "rows == groups * group_rows", "1 <= groups * group_blocks < 2**31 // CLUSTER",
           "CLUSTER == 1 or teams == 1"]
marks   = ["load_scale", "load_mean", "load_rstd", "store"]
problems = [
    """norm_bwd {4800 // LANES if CLUSTER == 1 else 6}x\
{HELD * LANES * 8 - 8 if CLUSTER == 1 else 1024 * CLUSTER - 8} {T}""",
    """norm_bwd {13 if CLUSTER == 1 else 2}x\
{1024 * CLUSTER if CLUSTER > 1 else HELD * 512 - 24 if LANES == 32 else HELD * LANES * 8 - 16} {T} \
       mode=rms""",
    """norm_bwd 2x{7 if CLUSTER == 1 else 2}x\
{HELD * LANES * 8 - 40 if CLUSTER == 1 else 1024 * CLUSTER - 40} {T} mode=ada_layer axis=2"""]
@*/
// Blocks, or clusters, stride over the rows of a group, which has its own scale; the `teams` of a block have
// a row each, or PER, and row_warps warps. A thread keeps its columns, and so their sums. A warp has a ring
// of its own: one slot has what it needs of x and dy; where it stores dx for the last time, it asks for what
// comes next into this place. The warps of a row leave their sums for each other, and go through the next row
// before they read them. part[group][block][dscale, dbias][cols].
#include "lib/hopper.cuh"
#include "row.cuh"

constexpr int PER = 32 / LANES, SLOT = 256 * HELD;        // rows at once; elements of a tensor in a slot
constexpr int WARPS = HELD == 2 ? 24 : 16, STAGES = 4;

struct Pair { float a, b; };
struct Both {
    DEVICE Pair operator()(const Pair& p, const Pair& q) const { return {p.a + q.a, p.b + q.b}; }
};
struct Statistics { float mean, rstd; };

// PTX ISA §cp.async.bulk: a multiple of 16 bytes.
DEVICE void bulk_load(void* to, const void* from, int bytes, uint64_t* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                    "r"(shared_address(b)) : "memory");
}

// The columns of this thread, and where it finds them.
struct Columns {
    int begin, stop, first;                               // of the warp; of the thread
    DEVICE Columns(int begin, int stop) : begin(begin), stop(min(stop, begin + SLOT / PER)),
                                          first(begin + threadIdx.x % LANES * 8) {}
    DEVICE int at(int k) const { return first + k * LANES * 8; }
    DEVICE bool has(int k) const { return at(k) < stop; }
    DEVICE int count() const { return max(stop - begin, 0); }
};

// bf16 is the upper half of its float: one instruction an element.
template <class Elem> DEVICE void eight(const Elem* at, float (&v)[8]) { Vec<Elem, 8>::load(at).get(v); }
template <> DEVICE void eight(const bf16* at, float (&v)[8]) {
    const uint4 w = *reinterpret_cast<const uint4*>(at);
    const unsigned two[4] = {w.x, w.y, w.z, w.w};
    UNROLL for (int i = 0; i < 4; ++i)
        v[2 * i] = __uint_as_float(two[i] << 16), v[2 * i + 1] = __uint_as_float(two[i] & 0xFFFF0000u);
}

struct Ring {
    T* slots;
    uint64_t* come;
    Columns columns;
    DEVICE T* slot(int stage, int tensor) const { return slots + (stage * 2 + tensor) * SLOT; }
    DEVICE void fetch(const T* x, const T* dy, i64 x_row, i64 dy_row, int row, int last, int stage) const {
        const int lane = threadIdx.x % 32, rows = min(last - row, PER), count = columns.count();
        if (rows <= 0 || !count) return;
        const int bytes = count * int(sizeof(T));
        if (lane == 0) barrier_expect(come + stage, 2 * rows * bytes);
        __syncwarp();
        const int of = lane / 2, tensor = lane % 2;
        if (of >= rows) return;
        const T* from = (tensor ? dy + (row + of) * dy_row : x + (row + of) * x_row) + columns.begin;
        bulk_load(slot(stage, tensor) + of * (SLOT / PER), from, bytes, come + stage);
    }
    DEVICE void get(int stage, int tensor, int k, float (&v)[8]) const {
        const int lane = threadIdx.x % 32;
        eight(slot(stage, tensor) + lane / LANES * (SLOT / PER) + k * LANES * 8 + lane % LANES * 8, v);
    }
};

// What the warps of a row leave for each other, in the order of their ranks and numbers.
struct Shared {
    Pair (&parts)[2][CLUSTER][WARPS];
    int row_warps, team, rank;
    DEVICE void leave(int turn, Pair sums) const {
        const int lane = threadIdx.x % 32;
        Pair* mine = &parts[turn & 1][rank][threadIdx.x / 32];
#if CLUSTER > 1
        if (lane < CLUSTER) cluster_write2(cluster_address(shared_address(mine), lane), sums.a, sums.b);
        cluster_arrive();
#else
        if (row_warps > 1 && lane == 0) *mine = sums;
#endif
    }
    DEVICE Pair take(int turn, Pair sums) const {
#if CLUSTER > 1
        cluster_wait();
#else
        if (row_warps == 1) return sums;
        asm volatile("bar.sync %0, %1;" :: "r"(team + 1), "r"(row_warps * 32) : "memory");
#endif
        const int lane = threadIdx.x % 32;
        Pair all = {0, 0};
        UNROLL for (int b = 0; b < CLUSTER; ++b)
            if (lane < row_warps) all = Both{}(all, parts[turn & 1][b][team * row_warps + lane]);
        return warp_reduce(all, Both{});
    }
};

// dscale and dbias of this thread's columns.
struct Sums {
    float v[2][HELD][8];
    // Row s of `to` begins s * pitch floats from there.
    template <class Use> DEVICE static void each(float* to, int pitch, const Columns& columns, Use use) {
        UNROLL for (int s = 0; s < 2; ++s) UNROLL for (int k = 0; k < HELD; ++k)
            if (columns.has(k)) UNROLL for (int i = 0; i < 8; i += 4)
                use(reinterpret_cast<float4*>(to + i64(s) * pitch + columns.at(k) + i), s, k, i);
    }
    DEVICE void put(float* to, int pitch, const Columns& columns) const {
        each(to, pitch, columns, [&](float4* at, int s, int k, int i) {
            *at = make_float4(v[s][k][i], v[s][k][i + 1], v[s][k][i + 2], v[s][k][i + 3]);
        });
    }
    DEVICE void take(float* from, int pitch, const Columns& columns) {
        each(from, pitch, columns, [&](float4* at, int s, int k, int i) {
            const float4 more = *at;
            float (&own)[8] = v[s][k];
            own[i] += more.x, own[i + 1] += more.y, own[i + 2] += more.z, own[i + 3] += more.w;
        });
    }
    // The rows of a warp, then the teams of a block, by halves; what team 0 has then is all.
    DEVICE void join(float* shown, int pitch, int team, int teams, const Columns& columns) {
        UNROLL for (int s = 0; s < 2; ++s) UNROLL for (int k = 0; k < HELD; ++k)
            UNROLL for (int i = 0; i < 8; ++i) UNROLL for (int mask = LANES; mask < 32; mask *= 2)
                v[s][k][i] += shuffle_xor(v[s][k][i], mask);
        if (teams == 1) return;
        const bool writes = threadIdx.x % 32 < LANES;
        NO_UNROLL for (int half = WARPS > 16 ? 16 : 8; half > 0; half /= 2) {
            __syncthreads();
            float* slot = shown + team % half * 2 * pitch;
            if (writes && team >= half && team < 2 * half) put(slot, pitch, columns);
            __syncthreads();
            if (writes && team + half < teams && team < half) take(slot, pitch, columns);
        }
    }
};

#if CLUSTER > 1
#define CLUSTERED __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTERED
#endif

extern "C" __global__ CLUSTERED __launch_bounds__(32 * WARPS, 1) void KERNEL(
    const T* x, const T* dy, float* part, int rows, int cols, int width, i64 x_row, i64 dy_row, i64 dx_row,
    int is_rms, int stages, int row_warps, int group_rows, int group_blocks, Fuse fuse) {
    extern __shared__ uint4 slots[];
    __shared__ alignas(8) uint64_t come[WARPS][STAGES];
    __shared__ Pair parts[2][CLUSTER][WARPS];
    if (LANES < 32) row_warps = 1;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = blockIdx.x % CLUSTER;
    const int group = blockIdx.x / CLUSTER / group_blocks, block = blockIdx.x / CLUSTER % group_blocks;
    const int teams = CLUSTER > 1 ? 1 : blockDim.x / 32 / row_warps;
    const int team = CLUSTER > 1 ? 0 : warp / row_warps;
    const int last = (group + 1) * group_rows, step = group_blocks * teams * PER;
    const int first = group * group_rows + (block * teams + team) * PER;
    const Columns columns(rank * width + (warp - team * row_warps) * SLOT, min(cols, (rank + 1) * width));
    const Ring ring = {reinterpret_cast<T*>(slots) + warp * stages * 2 * SLOT, come[warp], columns};
    const Shared shared = {parts, row_warps, team, rank};

    if (lane < stages) barrier_init(come[warp] + lane, 1);
    barriers_begin();
#if CLUSTER > 1
    cluster_arrive(), cluster_wait();
#else
    __syncwarp();
#endif
    NO_UNROLL for (int s = 0; s < stages; ++s)
        ring.fetch(x, dy, x_row, dy_row, first + s * step, last, s);

    float scale[HELD][8];
    Sums all = {};
    UNROLL for (int k = 0; k < HELD; ++k) {
        UNROLL for (int i = 0; i < 8; ++i) scale[k][i] = 1;
        const int col = min(columns.at(k), cols - 8), row = group * group_rows;
        fuse_load_scale(scale[k], row * x_row + col, row, col);
    }
    const auto known = [&](int row) {
        Statistics of = {0, 0};
        fuse_load_mean(of.mean, min(row + lane / LANES, rows - 1));
        fuse_load_rstd(of.rstd, min(row + lane / LANES, rows - 1));
        return of;
    };
    const float share = 1.f / float(cols);
    int now = 0, then = 0;
    unsigned phase = 0;
    Statistics of = known(first), before = {0, 0};
    Pair sums = {0, 0};
    NO_UNROLL for (int turn = 0, row = first; row < last + step; ++turn, row += step) {
        const Pair earlier = sums;
        const Statistics next = known(row + step);
        if (row < last) {
            if (columns.count()) barrier_wait(come[warp] + now, phase);
            Pair some[2] = {};                           // of dy * scale, and that times x - mean
            UNROLL for (int k = 0; k < HELD; ++k) {
                if (!columns.has(k) || row + lane / LANES >= last) continue;
                float a[8], d[8];
                ring.get(now, 0, k, a), ring.get(now, 1, k, d);
                UNROLL for (int i = 0; i < 8; ++i) {
                    const float each = d[i] * (a[i] - of.mean);
                    Pair& sum = some[i % 2];
                    sum = {fma(d[i], scale[k][i], sum.a), fma(each, scale[k][i], sum.b)};
                    all.v[0][k][i] = fma(each, of.rstd, all.v[0][k][i]), all.v[1][k][i] += d[i];
                }
            }
            sums = warp_reduce<LANES>(Both{}(some[0], some[1]), Both{});
        }
        if (turn > 0) {
            const Pair found = shared.take(turn - 1, earlier);
            const float slope = -before.rstd * (before.rstd * (before.rstd * (found.b * share)));
            const float middle = is_rms ? 0 : -before.rstd * (found.a * share);
            const int at = row - step + lane / LANES;
            UNROLL for (int k = 0; k < HELD; ++k) {
                if (!columns.has(k) || at >= last) continue;
                float a[8], d[8], dx[8];
                ring.get(then, 0, k, a), ring.get(then, 1, k, d);
                UNROLL for (int i = 0; i < 8; ++i)
                    dx[i] = fma(d[i], scale[k][i] * before.rstd, fma(a[i] - before.mean, slope, middle));
                fuse_store(dx, at * dx_row + columns.at(k), at, columns.at(k));
            }
            __syncwarp();
            ring.fetch(x, dy, x_row, dy_row, row + (stages - 1) * step, last, then);
        }
        if (row < last) shared.leave(turn, sums);
        before = of, of = next, then = now;
        if (++now == stages) now = 0, phase ^= 1;
    }
    rows_end();
    if (!part) return;
    all.join(reinterpret_cast<float*>(slots), row_warps * (SLOT / PER), team, teams, columns);
    if (team == 0 && lane < LANES) all.put(part + i64(blockIdx.x / CLUSTER) * 2 * cols, cols, columns);
}
