/*@kernel
name    = "norm_fwd_ring_{T}_{HELD}"
about   = """Layer or RMS norm of long rows: they come to shared memory ahead of their use, and blocks of a \
             row tell each other their means and variances. One read."""
T       = ["f32", "f16", "bf16"]
HELD    = [1, 2]
when    = ["HELD == 1 or sizeof(T) < 4"]
targets = ["sm_90"]
params  = ["const T* x", "void* mail", "int rows", "int cols", "int width", "int64_t x_row", "int64_t y_row",
           "int is_rms", "Number<float> epsilon", "int stages", "int ahead", "int joined", "Fuse fuse"]
extra   = ["teams"]
block   = [640, 1, 1]
grid    = ["teams * joined", 1, 1]
smem    = "stages * width * sizeof(T)"
cooperative = true
needs   = ["1 <= teams <= rows < 2**30", "1 <= joined", "1 <= ahead <= 7", "ahead + 1 < stages <= 16",
           "cols % 8 == 0", "width % 8 == 0", "1 <= width <= 4096 * HELD",
           "cols <= width * joined", "width * (joined - 1) < cols"]
marks   = ["load_scale", "load_bias", "store", "mean", "rstd"]
problems = ["norm_fwd {40 if HELD == 1 else 3}x{264 if HELD == 1 else 4360} {T}",
            "norm_fwd 2x{HELD * 4096 + 264} {T} mode=rms",
            "norm_fwd x=3x{HELD * 4096 - 1040}:{T}@{HELD * 4096},1"]
@*/
// Member m of a team has the columns from m * width on. A warp takes the mean of what it has, and the squares
// of the differences from that; parts are joined as in batch norm, so that large means cost no digits.
#include "lib/number.cuh"
#include "moments.cuh"
#include "row_ring.cuh"

struct Moments {
    int cols, width, count;                            // of a row, of a block; of this block
    using Part = Stat<float>;
    DEVICE float held(int warp) const {
        int n = 0;
        UNROLL for (int k = 0; k < HELD; ++k) n += max(0, min(256, count - (k * THREADS + warp * 32) * 8));
        return float(n);
    }
    DEVICE Part of_warp(int w, float2 v) const { return {w < WARPS ? held(w) : 0.f, v.x, v.y}; }
    DEVICE Part of_block(int b, float2 v) const {
        return {b < 0 ? 0.f : float(min(cols - b * width, width)), v.x, v.y};
    }
    DEVICE Part merge(const Part& p, const Part& q) const { return cydnn::merge(p, q); }
    DEVICE float2 shown(const Part& p) const { return {p.mean, p.m2}; }
};

extern "C" __global__ __launch_bounds__(BLOCK, 1) void KERNEL(
    const T* x, void* mail_words, int rows, int cols, int width, i64 x_row, i64 y_row, int is_rms,
    Number<float> epsilon, int stages, int ahead, int joined, Fuse fuse) {
    extern __shared__ uint4 slots[];
    __shared__ Meeting<float2> met;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, teams = gridDim.x / joined;
    const int team = blockIdx.x / joined, own = blockIdx.x % joined, first = own * width;
    const int turns = (rows - team + teams - 1) / teams;
    const Ring<T, 1> ring = {reinterpret_cast<T*>(slots), stages, width, min(cols - first, width)};
    const Mail mail = {reinterpret_cast<u64*>(mail_words) + i64(team) * MAILS * joined * 2, joined};
    const Moments moments = {cols, width, ring.count};
    const auto fetch = [&](int turn, int stage) {
        ring.fetch({x + i64(team + turn * teams) * x_row + first}, stage, met.come);
        barrier_arrive(met.come + stage);
    };
    met.start(stages, joined);
    if (warp == TELLS && lane < min(stages, turns)) fetch(lane, lane);
    const auto done = [&](unsigned turn, const Stat<float>& all) {          // by one warp
        if (lane) return;
        float mean = all.mean, rstd = 1.f / sqrtf(all.m2 / float(cols) + epsilon.load());
        met.found[turn % TURNS] = {mean, rstd};
        barrier_arrive(met.known + turn % TURNS);
        if (own) return;
        fuse_mean(mean, team + turn * teams);
        fuse_rstd(rstd, team + turn * teams);
    };
    if (warp == TELLS) {
        int stage = 0;
        tell(met, mail, own, turns, ahead, moments, [&](int turn) {
            if (lane == 0 && turn + stages < turns) fetch(turn + stages, stage);
            if (++stage == stages) stage = 0;
        }, done);
    } else if (warp >= HEARS) {
        hear(met, mail, turns, moments, done);
    } else {
        float scale[HELD][8], bias[HELD][8];
        UNROLL for (int k = 0; k < HELD; ++k) {
            UNROLL for (int i = 0; i < 8; ++i) scale[k][i] = 1, bias[k][i] = 0;
            const int col = first + min(column_of(k), ring.count - 8);
            fuse_load_scale(scale[k], col, 0, col);
            fuse_load_bias(bias[k], col, 0, col);
        }
        const float count = moments.held(warp), share = is_rms ? 0 : 1.f / fmaxf(count, 1.f);
        const unsigned come = shared_address(met.come), told = shared_address(met.told),
                       known = shared_address(met.known);
        Place now, then;
        NO_UNROLL for (unsigned turn = 0; turn < unsigned(turns + ahead); ++turn) {
            const bool adds = turn < unsigned(turns), stores = turn >= unsigned(ahead);
            const unsigned earlier = turn - ahead;
            Eight<T> a[HELD] = {}, a_then[HELD] = {};
            float2 found = {0, 0};                                      // mean, rstd
            if (adds) wait_at(come + 8 * now.at, now.phase);
            if (stores) {
                wait_at(known + earlier % TURNS * 8, earlier / TURNS & 1);
                found = met.found[earlier % TURNS];
            }
            UNROLL for (int k = 0; k < HELD; ++k) {
                const int col = column_of(k);
                if (adds && col < ring.count) a[k] = ring.get(now.at, 0, col);
                if (stores && col < ring.count) a_then[k] = ring.get(then.at, 0, col);
            }
            float v[HELD][8], sum[2] = {}, squares[2] = {};
            UNROLL for (int k = 0; k < HELD; ++k) {
                a[k].get(v[k]);
                UNROLL for (int i = 0; i < 8; ++i) sum[i % 2] += v[k][i];
            }
            const float mean = warp_sum(sum[0] + sum[1]) * share;
            UNROLL for (int k = 0; k < HELD; ++k) {
                float mine[2] = {};
                UNROLL for (int i = 0; i < 8; ++i) {
                    const float d = v[k][i] - mean;
                    mine[i % 2] = fma(d, d, mine[i % 2]);
                }
                if (column_of(k) < ring.count) squares[0] += mine[0], squares[1] += mine[1];
            }
            const float m2 = warp_sum(squares[0] + squares[1]);
            const int row = team + earlier * teams;
            UNROLL for (int k = 0; k < HELD; ++k) {
                float x_k[8], y[8];
                a_then[k].get(x_k);
                UNROLL for (int i = 0; i < 8; ++i)
                    y[i] = fma((x_k[i] - found.x) * found.y, scale[k][i], bias[k][i]);
                const int col = first + column_of(k);
                if (stores && column_of(k) < ring.count) fuse_store(y, row * y_row + col, row, col);
            }
            __syncwarp();
            if (adds && lane == 0) {
                met.parts[turn % TURNS][warp] = {mean, m2};
                arrive_at(told + turn % TURNS * 8);
            }
            now.next(stages);
            if (stores) then.next(stages);
        }
    }
}
