/*@kernel
name    = "norm_bwd_ring_{T}_{HELD}"
about   = """Gradients of layer or RMS norm of long rows in one launch: rows of x and dy come to shared \
             memory ahead of their use, blocks of a row tell each other their sums, and add those of columns \
             last."""
T       = ["f32", "f16", "bf16"]
HELD    = [1, 2]
when    = ["HELD == 1 or sizeof(T) < 4"]
targets = ["sm_90a"]
params  = ["const T* x", "const T* dy", "float* part", "void* mail", "int rows", "int cols", "int width",
           "int64_t x_row", "int64_t dy_row", "int64_t dx_row", "int is_rms", "int stages", "int ahead",
           "int joined", "int spread", "Fuse fuse"]
extra   = ["teams"]
block   = [640, 1, 1]
grid    = ["teams * joined", 1, 1]
smem    = "stages * 2 * width * sizeof(T)"
cooperative = true
needs   = ["1 <= teams <= rows < 2**30", "1 <= joined", "1 <= ahead <= 7", "ahead + 1 < stages <= 16",
           "cols % 8 == 0", "width % 8 == 0", "1 <= width <= 4096 * HELD",
           "cols <= width * joined", "width * (joined - 1) < cols",
           "spread in (1, 2, 4, 8, 16)"]
marks   = ["load_scale", "load_mean", "load_rstd", "store", "dscale", "dbias"]
problems = ["norm_bwd {40 if HELD == 1 else 3}x{264 if HELD == 1 else 4360} {T}",
            "norm_bwd 2x{HELD * 4096 + 264} {T} mode=rms",
            """norm_bwd x=15x{HELD * 4096 - 240}:{T}@{HELD * 4096},1 dy=15x{HELD * 4096 - 240}:{T} \
               scale=1x{HELD * 4096 - 240}:f32 mean=15x1:f32 rstd=15x1:f32 dx=15x{HELD * 4096 - 240}:f16 \
               dscale=1x{HELD * 4096 - 240}:f32 dbias=1x{HELD * 4096 - 240}:f32"""]
@*/
// Member m of a team has the columns from m * width on; a thread keeps its columns, and so their sums, for
// all rows of the team. What is not loaded is 0, and adds nothing.
#include "row_ring_sums.cuh"

constexpr int GIVES = 32, TAKES = 112;                 // registers: 4 * 112 + 32 of 5 * 96

struct Pair { float a, b; };                           // sums of dy * scale, and of that times x - mean
struct Both {
    DEVICE Pair of_warp(int, float2 v) const { return {v.x, v.y}; }
    DEVICE Pair of_block(int, float2 v) const { return {v.x, v.y}; }
    DEVICE Pair merge(const Pair& p, const Pair& q) const { return {p.a + q.a, p.b + q.b}; }
    DEVICE float2 shown(const Pair& p) const { return {p.a, p.b}; }
};

// dscale and dbias of this thread's columns.
struct Sums { float scale[HELD][8], bias[HELD][8]; };

extern "C" __global__ __launch_bounds__(BLOCK, 1) void KERNEL(
    const T* x, const T* dy, float* part, void* mail_words, int rows, int cols, int width, i64 x_row,
    i64 dy_row, i64 dx_row, int is_rms, int stages, int ahead, int joined, int spread, Fuse fuse) {
    extern __shared__ uint4 slots[];
    __shared__ Meeting<float4> met;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, teams = gridDim.x / joined;
    const int team = blockIdx.x / joined, own = blockIdx.x % joined, first = own * width;
    const int turns = (rows - team + teams - 1) / teams;
    const Ring<T, 2> ring = {reinterpret_cast<T*>(slots), stages, width, min(cols - first, width)};
    const Mail mail = {reinterpret_cast<u64*>(mail_words) + i64(team) * MAILS * joined * 2, joined};
    const auto row_of = [&](int turn) { return team + turn * teams; };
    const auto fetch = [&](int turn, int stage) {
        const i64 row = row_of(turn);
        ring.fetch({x + row * x_row + first, dy + row * dy_row + first}, stage, met.come);
    };
    const auto statistics = [&](int turn) {
        float2 of = {0, 0};
        fuse_load_mean(of.x, row_of(turn));
        fuse_load_rstd(of.y, row_of(turn));
        return of;
    };
    const auto show = [&](int stage, float2 of) {                      // a row has come when this has, too
        met.statistics[stage] = of;
        barrier_arrive(met.come + stage);
    };
    met.start(stages, joined);
    if (warp == TELLS && lane < min(stages, turns)) fetch(lane, lane), show(lane, statistics(lane));
    const auto done = [&](unsigned turn, const Pair& all) {                 // by one warp
        if (lane) return;
        const float2 of = met.statistics[turn % stages];
        const float share = 1.f / float(cols), slope = -of.y * (of.y * (of.y * (all.b * share)));
        met.found[turn % TURNS] = {of.x, of.y, is_rms ? 0 : -of.y * (all.a * share), slope};
        barrier_arrive(met.known + turn % TURNS);
    };
    if (warp >= WARPS) {
        registers_give<GIVES>();
        if (warp >= HEARS) return hear(met, mail, turns, Both{}, done);
        int stage = 0, pending = -1;                                    // whose statistics are under way
        float2 of;
        tell(met, mail, own, turns, ahead, Both{}, [&](int turn) {
            if (lane) return;
            if (pending >= 0) show(pending, of);
            pending = turn + stages < turns ? stage : -1;
            if (pending >= 0) fetch(turn + stages, stage), of = statistics(turn + stages);
            if (++stage == stages) stage = 0;
        }, done);
        if (lane == 0 && pending >= 0) show(pending, of);
    } else {
        registers_take<TAKES>();
        float scale[HELD][8];
        Sums all;
        UNROLL for (int k = 0; k < HELD; ++k) {
            UNROLL for (int i = 0; i < 8; ++i) scale[k][i] = 1, all.scale[k][i] = all.bias[k][i] = 0;
            const int col = first + min(column_of(k), ring.count - 8);
            fuse_load_scale(scale[k], col, 0, col);
        }
        const unsigned come = shared_address(met.come), told = shared_address(met.told),
                       known = shared_address(met.known);
        Place now, then;
        NO_UNROLL for (unsigned turn = 0; turn < unsigned(turns + ahead); ++turn) {
            const bool adds = turn < unsigned(turns), stores = turn >= unsigned(ahead);
            const unsigned earlier = turn - ahead;
            Eight<T> a[HELD] = {}, d[HELD] = {};
            float2 of = {0, 0};
            float4 found = {0, 0, 0, 0};                                // mean, rstd, middle, slope
            if (adds) wait_at(come + 8 * now.at, now.phase), of = met.statistics[now.at];
            if (stores) {
                wait_at(known + earlier % TURNS * 8, earlier / TURNS & 1);
                found = met.found[earlier % TURNS];
            }
            UNROLL for (int k = 0; k < HELD; ++k)
                if (const int col = column_of(k); adds && col < ring.count)
                    a[k] = ring.get(now.at, 0, col), d[k] = ring.get(now.at, 1, col);
            Pair some[2] = {};
            UNROLL for (int k = 0; k < HELD; ++k) {
                float x_k[8], dy_k[8];
                a[k].get(x_k), d[k].get(dy_k);
                UNROLL for (int i = 0; i < 8; ++i) {
                    const float each = dy_k[i] * (x_k[i] - of.x);
                    Pair& sum = some[i % 2];
                    sum = {fma(dy_k[i], scale[k][i], sum.a), fma(each, scale[k][i], sum.b)};
                    all.scale[k][i] = fma(each, of.y, all.scale[k][i]), all.bias[k][i] += dy_k[i];
                }
            }
            UNROLL for (int k = 0; k < HELD; ++k)                        // under way while lanes are added
                if (const int col = column_of(k); stores && col < ring.count)
                    a[k] = ring.get(then.at, 0, col), d[k] = ring.get(then.at, 1, col);
            const Pair sums = warp_reduce(Both{}.merge(some[0], some[1]),
                                          [](const Pair& p, const Pair& q) { return Both{}.merge(p, q); });
            const int row = row_of(earlier);
            UNROLL for (int k = 0; k < HELD; ++k) {
                float x_k[8], dy_k[8], dx[8];
                a[k].get(x_k), d[k].get(dy_k);
                UNROLL for (int i = 0; i < 8; ++i)
                    dx[i] = fma(dy_k[i], scale[k][i] * found.y, fma(x_k[i] - found.x, found.w, found.z));
                const int col = first + column_of(k);
                if (stores && column_of(k) < ring.count) fuse_store(dx, row * dx_row + col, row, col);
            }
            __syncwarp();
            if (adds && lane == 0) {
                met.parts[turn % TURNS][warp] = {sums.a, sums.b};
                arrive_at(told + turn % TURNS * 8);
            }
            now.next(stages);
            if (stores) then.next(stages);
        }
        if (!part) return;
        UNROLL for (int k = 0; k < HELD; ++k) {
            const int col = column_of(k);
            if (col >= ring.count) continue;
            float* to = part + i64(team) * 2 * cols + first + col;
            put(to, all.scale[k]);
            put(to + cols, all.bias[k]);
        }
        at_work_grid();
        add_parts(part, teams, cols, spread);
    }
}
