/*@kernel
name    = "rnn_cluster_{T}_{CELL}_{NT}"
about   = """All steps of one layer of a recurrent network in one launch: a cluster of blocks keeps the \
             weights of a direction, and steps with {NT} tiles of 8 batch rows, whose states go from block \
             to block through distributed shared memory (mma.sync, f32 sums)."""
T       = ["f16", "bf16"]
CELL    = ["vanilla", "lstm", "gru"]
NT      = [1, 2]
targets = ["sm_90"]
params  = ["const T* weights", "const T* bias", "const T* x", "T* gates", "T* cells", "T* out",
           "const T* keep", "T* kept", "const T* hx", "const T* cx", "T* hy", "T* cy", "const int* starts",
           "int steps", "int batch", "int hidden", "int is_tanh", "int64_t weights_dir", "int64_t x_dir",
           "int64_t x_row", "int64_t x_gate", "int64_t gates_dir", "int64_t cells_dir", "int64_t out_row",
           "int64_t hx_dir", "int64_t hx_row", "int64_t cx_dir", "int64_t cx_row", "int64_t hy_dir",
           "int64_t hy_row", "int64_t cy_dir", "int64_t cy_row"]
block   = ["32 * warps", 1, 1]
grid    = ["blocks", "ceil_div(batch, 8 * NT)", "directions"]
cluster = ["blocks", 1, 1]
smem    = """4096 * NT * ceil_div(hidden, 128) + warps * (1024 if CELL == 'vanilla' else 2048) \
             * max(4 * ceil_div(hidden, 128) - 8, 0)"""
extra   = ["blocks", "directions", "warps"]
needs   = ["hidden % 8 == 0", "steps >= 1", "1 <= warps", "warps <= 8", "blocks >= 2",
           "blocks * warps * (16 if CELL == 'vanilla' else 8) >= hidden"]
problems = ["""rnn_fwd t4n{8 * NT}i8 hidden=264 bidirectional=True \
               batches={8 * NT},{8 * NT - 3},2,1 cell={'relu' if CELL == 'vanilla' else CELL} {T}""",
            """rnn_fwd t3n{8 * NT - 3}i8 hidden=280 layers=2 dropout=0.5 \
               cell={'tanh' if CELL == 'vanilla' else CELL} {T} hx=none cx=none""",
            """rnn_fwd t2n{8 * NT + 2}i8 hidden=24 cell={'tanh' if CELL == 'vanilla' else CELL} {T} \
               reserve=none"""]
@*/
// x is the input side of the gates before their functions, without its bias; it may be `gates`, whose element
// a thread reads before it writes it. Steps of a row behind its last keep its state.
//
// A step begins when all chunks of states have come, which an mbarrier counts. States have two buffers: a
// block that has sent its part of step s + 1 has read all of step s, and nobody sends step s + 2 before it
// has that part of every block; so the one barrier is enough. Blocks without units leave at once.
#include "rnn/cluster.cuh"

extern "C" __global__ __launch_bounds__(256, 1) void KERNEL(
    const T* weights, const T* bias, const T* x, T* gates, T* cells, T* out, const T* keep, T* kept,
    const T* hx, const T* cx, T* hy, T* cy, const int* starts, int steps, int batch, int hidden, int is_tanh,
    i64 weights_dir, i64 x_dir, i64 x_row, i64 x_gate, i64 gates_dir, i64 cells_dir, i64 out_row, i64 hx_dir,
    i64 hx_row, i64 cx_dir, i64 cx_row, i64 hy_dir, i64 hy_row, i64 cy_dir, i64 cy_row) {
    using Cell = CELL::Cell;
    using Piece = Fragment<T>;
    using Sums = ClusterProduct<T, Cell, NT>;
    constexpr int G = Cell::Gates, K = Cell::Kept, Groups = Sums::Groups;
    constexpr int Joined = K > G ? G - 1 : G;    // gates that take the sum of both sides
    extern __shared__ uint4 states[];
    __shared__ uint64_t full[2];
    const int dir = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warps = blockDim.x / 32, row0 = blockIdx.y * 8 * NT;
    const int unit0 = (blockIdx.x * warps + warp) * 8 * Groups, owners = ceil_div(hidden, warps * 8 * Groups);
    const int pairs = 4 * ceil_div(hidden, 128), area = pairs * NT * 32;
    const int bytes = hidden * 16 * NT;          // that come at a step
    hx += hx ? dir * hx_dir : 0, cx += cx ? dir * cx_dir : 0, hy += hy ? dir * hy_dir : 0;
    cy += cy ? dir * cy_dir : 0, weights += dir * weights_dir, bias += dir * 2 * G * hidden;

    // What stays: states and barriers of the block, then weights, biases and states of the warp.
    NO_UNROLL for (int i = threadIdx.x; i < 2 * area; i += blockDim.x) {
        const int chunk = i / 8, b = row0 + chunk / 4 % NT * 8 + (i - chunk % 4 * 2) % 8;
        const int unit = chunk / (4 * NT) * 32 + chunk % 4 * 8;
        unsigned v[4];
        UNROLL for (int w = 0; w < 4; ++w)
            v[w] = word_or_zero(hx && i < area && b < batch && unit < hidden, hx + b * hx_row + unit + 2 * w);
        states[i] = {v[0], v[1], v[2], v[3]};
    }
    if (threadIdx.x == 0) {
        UNROLL for (int i = 0; i < 2; ++i) barrier_init(full + i, 1);
        barriers_begin();
        UNROLL for (int i = 0; i < 2; ++i) barrier_expect(full + i, bytes);
    }
    Sums product(states + 2 * area + warp * max(pairs - Sums::Near, 0) * Sums::Tiles * 64, pairs);
    product.hold(weights, unit0, hidden);
    float bias_x[Groups][G] = {}, bias_h[Groups] = {}, c[NT][Groups][2];
    unsigned h[NT][Groups];                      // of sums' way
    UNROLL for (int p = 0; p < Groups; ++p) {
        const int unit = unit0 + 8 * p + g;
        if (unit < hidden) UNROLL for (int q = 0; q < G; ++q) {
            const float again = to_acc(bias[(G + q) * hidden + unit]);
            bias_x[p][q] = to_acc(bias[q * hidden + unit]) + (q < Joined ? again : 0);
            if (q >= Joined) bias_h[p] = again;
        }
    }
    UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
        const int b = row0 + 8 * n + g, unit = unit0 + 8 * p + 2 * t;
        const bool here = b < batch && unit < hidden;
        h[n][p] = turn(word_or_zero(here && hx, hx + b * hx_row + unit));
        halves<T>(turn(word_or_zero(here && cx, cx + b * cx_row + unit)), c[n][p]);
    }
    const ClusterSend<Groups> send(states, full, owners, unit0 / 32 * NT * 32 + unit0 / 8 % 4 * 8);
    cluster_arrive();
    cluster_wait();
    if (unit0 >= hidden) return;

    // What is on its way: the input side of the next step, and where the one behind it begins and ends.
    const Walk walk = {starts, steps, batch};
    unsigned ahead[NT][Groups][G], factor[NT][Groups], next_factor[NT][Groups];
    int rows = walk.rows(walk.time(0, dir)), next_rows = walk.rows(walk.time(1, dir));
    i64 first = walk.first(walk.time(0, dir)), next_first = next_rows ? walk.first(walk.time(1, dir)) : 0;
    const auto fetch = [&](int rows, i64 first) {
        UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
            const int b = row0 + 8 * n + g, unit = unit0 + 8 * p + 2 * t;
            const bool here = b < rows && unit < hidden;
            const T* from = x + dir * x_dir + (first + b) * x_row + unit;
            UNROLL for (int q = 0; q < G; ++q) ahead[n][p][q] = word_or_zero(here, from + q * x_gate);
            const i64 o = dir * hidden + (first + b) * out_row + unit;
            next_factor[n][p] = word_or_zero(here && keep, keep + o);
        }
    };
    fetch(rows, first);
    const uint4 *from = states + t * 8 + (g + 2 * t) % 8, *other = from + area;

    NO_UNROLL for (int step = 0; step < steps; ++step) {
        float in[NT][Groups][G][2];
        UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
            factor[n][p] = next_factor[n][p];
            UNROLL for (int q = 0; q < G; ++q) {
                halves<T>(turn(ahead[n][p][q]), in[n][p][q]);
                UNROLL for (int e = 0; e < 2; ++e) in[n][p][q][e] += bias_x[p][q];
            }
        }
        fetch(next_rows, next_first);
        const int later = walk.time(step + 2, dir), buffer = step & 1;
        int begin = 0, end = 0;
        if (starts && step + 2 < steps) begin = starts[later], end = starts[later + 1];
        if (step) barrier_wait(full + buffer, (step - 1) >> 1 & 1);
        if (step && threadIdx.x == 0) barrier_expect(full + buffer, bytes);
        product.run(from);

        unsigned stored[NT][Groups][K], shown[NT][Groups];
        UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
            float state[2], kept_of[K][2];
            halves<T>(h[n][p], state);
            UNROLL for (int e = 0; e < 2; ++e) {
                float ys[G], own[K], hs = state[e], cs = c[n][p][e], xs[G];
                UNROLL for (int q = 0; q < G; ++q) {
                    xs[q] = in[n][p][q][e];
                    ys[q] = product.total(q, p, n, e);
                    if (q >= Joined) ys[q] += bias_h[p];
                }
                Cell::forward<T>(xs, ys, hs, cs, own, is_tanh);
                if (row0 + 8 * n + 2 * t + e < rows && unit0 + 8 * p + g < hidden)
                    state[e] = hs, c[n][p][e] = cs;
                UNROLL for (int q = 0; q < K; ++q) kept_of[q][e] = own[q];
            }
            h[n][p] = Piece::two(state[0], state[1]);
            shown[n][p] = turn(h[n][p]);
            if (step + 1 < steps && unit0 + 8 * p < hidden)
                send(shown[n][p], p, 16 * ((buffer ? 0 : area) + 32 * n), buffer ^ 1);
            UNROLL for (int q = 0; q < K; ++q) stored[n][p][q] = Piece::two(kept_of[q][0], kept_of[q][1]);
        }
        UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
            const int b = row0 + 8 * n + g, unit = unit0 + 8 * p + 2 * t;
            const bool here = b < rows && unit < hidden;
            const i64 row = first + b, o = dir * hidden + row * out_row + unit;
            if (here) store_word(out + o, shown[n][p]);
            if (kept && here) {
                float v[2], f[2];
                halves<T>(shown[n][p], v), halves<T>(factor[n][p], f);
                UNROLL for (int e = 0; e < 2; ++e) v[e] = f[e] == 0 ? 0.f : v[e] * f[e];
                store_word(kept + o, Piece::two(v[0], v[1]));
            }
            if (gates) {
                T* to = gates + dir * gates_dir + row * K * hidden + unit;
                UNROLL for (int q = 0; q < K; ++q) stored[n][p][q] = turn(stored[n][p][q]);
                if (here) UNROLL for (int q = 0; q < K; ++q) store_word(to + q * hidden, stored[n][p][q]);
            }
            if (Cell::has_c && cells) {
                const unsigned v = turn(Piece::two(c[n][p][0], c[n][p][1]));
                if (here) store_word(cells + dir * cells_dir + row * hidden + unit, v);
            }
        }
        rows = next_rows, first = next_first;
        next_rows = step + 2 >= steps ? 0 : starts ? end - begin : batch;
        next_first = starts ? begin : i64(later) * batch;
        const uint4* last = from;
        from = other, other = last;
    }
    UNROLL for (int n = 0; n < NT; ++n) UNROLL for (int p = 0; p < Groups; ++p) {
        const int b = row0 + 8 * n + g, unit = unit0 + 8 * p + 2 * t;
        const unsigned last_h = turn(h[n][p]), last_c = turn(Piece::two(c[n][p][0], c[n][p][1]));
        if (b >= batch || unit >= hidden) continue;
        if (hy) store_word(hy + b * hy_row + unit, last_h);
        if (Cell::has_c && cy) store_word(cy + b * cy_row + unit, last_c);
    }
}
