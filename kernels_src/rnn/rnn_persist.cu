/*@kernel
name    = "rnn_{FORM}_{T}_{CELL}_{MT}x{NT}"
about   = """All steps of one layer of a recurrent network in one launch (persist), or of all layers, each \
             beside later steps of those below (wave): blocks keep the weights of their units, and \
             exchange states through L2 (mma.sync, f32 sums)."""
FORM    = ["persist", "wave"]
T       = ["f16", "bf16", "f32"]
CELL    = ["vanilla", "lstm", "gru"]
MT      = [1, 2, 3, 4, 6, 8]
NT      = [4, 2, 8]
targets = ["sm_80"]
when    = ["MT <= 2 if CELL == 'vanilla' else MT == 4 or MT == 8 if CELL == 'lstm' else MT == 3 or MT == 6",
           "NT != 8 or T != f32 and MT != 2 and MT <= 4 and FORM == 'persist'", "NT == 2 or MT != 8"]
params  = ["const T* weights", "const T* below", "T* exchange", "const T* bias", "const T* x", "T* gates",
           "T* cells", "T* out", "T* inner", "const T* keep", "T* kept", "const T* hx", "const T* cx",
           "T* hy", "T* cy", "const int* starts", "int steps", "int batch", "int hidden", "int is_tanh",
           "int group_rows", "int resident", "int resident_below", "int stages", "int is_late",
           "int64_t x_dir", "int64_t x_row", "int64_t x_gate", "int64_t gates_dir", "int64_t cells_dir",
           "int64_t inner_dir", "int64_t out_row", "int64_t hx_dir", "int64_t hx_row", "int64_t cx_dir",
           "int64_t cx_row", "int64_t hy_dir", "int64_t hy_row", "int64_t cy_dir", "int64_t cy_row"]
block   = [256, 1, 1]
grid    = ["ceil_div(hidden, 16 * tiles)", "ceil_div(batch, group_rows)", "planes"]
smem    = """512 * (resident + resident_below + 8 * stages) * MT + 2560 * MT * NT \
             + 1024 * tiles * NT * ceil_div(group_rows, 8 * NT)"""
extra   = ["planes", "tiles"]
cooperative = true
needs   = ["hidden % 2 == 0", "steps >= 1", "1 <= tiles", "tiles <= 2", "tiles * NT <= 8",
           "group_rows % 16 == 0"]
problems = ["""rnn_fwd t1n{5 if NT == 2 else 20 if NT == 4 else 70}i8 layers={2 if FORM == 'wave' else 1} \
               cell={'tanh' if CELL == 'vanilla' else CELL} {T} \
               hidden={(1 if NT == 8 else 33 if T == f32 else 9 if MT == 6 else 57 if NT == 2 else 25) \
                       * 32 // sizeof(T) + 8}""",
            """rnn_fwd t3n{5 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=40 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T}""",
            """rnn_fwd t2n{16 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} bidirectional={FORM == 'persist'} {T}""",
            """rnn_fwd t3n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=8 layers=3 \
               batches={4 if NT == 2 else 20 if NT == 4 else 70},3,2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} bidirectional={FORM == 'persist'} {T}""",
            """rnn_fwd t2n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 dropout=0.5 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} hx=none cx=none"""]
@*/
// weights, below and exchange are those of rnn_pack. x is the input side of the gates before their functions,
// without its bias; it may be `gates`, whose element a thread reads before it writes it. Steps of a row
// behind its last keep its state.
//
// persist: blockIdx.z is the direction of one layer. wave: it is the layer, of one direction, and a step
// begins with the product of what the layer below gave at the same time, which is there early; then a layer
// may be any number of steps ahead, so that every step has an area of the exchange, and none is emptied.
// Where outputs are masked, what is left of them goes to planes of its own, behind those of the states.
#include "rnn/persist.cuh"

extern "C" __global__ __launch_bounds__(256, 1) void KERNEL(
    const T* weights, const T* below, T* exchange, const T* bias, const T* x, T* gates, T* cells, T* out,
    T* inner, const T* keep, T* kept, const T* hx, const T* cx, T* hy, T* cy, const int* starts, int steps,
    int batch, int hidden, int is_tanh, int group_rows, int resident, int resident_below, int stages,
    int is_late, i64 x_dir, i64 x_row, i64 x_gate, i64 gates_dir, i64 cells_dir, i64 inner_dir, i64 out_row,
    i64 hx_dir, i64 hx_row, i64 cx_dir, i64 cx_row, i64 hy_dir, i64 hy_row, i64 cy_dir, i64 cy_row) {
    using Cell = CELL::Cell;
    using Piece = Fragment<T>;
    constexpr bool IsWave = FORM::IsWave;
    constexpr int G = Cell::Gates, K = Cell::Kept, Tiles = MT / G, Most = Tiles * NT > 4 ? 2 : 1;
    extern __shared__ uint4 held[];
    uint4 *held_below = held + resident * MT * 32, *rings = held_below + resident_below * MT * 32;
    float2* parts = reinterpret_cast<float2*>(rings + 8 * stages * MT * 32);
    float4* states = reinterpret_cast<float4*>(parts + 4 * MT * NT * 80);
    const int z = blockIdx.z, planes = gridDim.z, dir = IsWave ? 0 : z, slot = blockIdx.x, groups = gridDim.y;
    const bool has_below = IsWave && z > 0, is_inner = IsWave && z + 1 < planes, is_masked = keep;
    const int k_steps = ceil_div(hidden, Piece::Depth), pairs = group_rows / 16;
    const i64 words = i64(k_steps) * MT * 32, area = i64(k_steps) * pairs * 32, plane = groups * area;
    const uint4* own = reinterpret_cast<const uint4*>(weights) + (z * gridDim.x + slot) * words;
    const uint4* under = reinterpret_cast<const uint4*>(below) + ((z - 1) * gridDim.x + slot) * words;
    hold<MT, 1>(held, own, resident, k_steps);
    if (has_below) hold<MT, 1>(held_below, under, resident_below, k_steps);
    uint4* round = reinterpret_cast<uint4*>(exchange) + z * plane + blockIdx.y * area;
    const i64 apart = (IsWave && is_masked ? 2 : 1) * planes * plane;
    const auto turn = [&](int step) { return IsWave ? step * apart : step % RING * apart; };
    const uint4* given = round + (is_masked ? planes - 1 : -1) * plane;    // by the layer below

    if (IsWave) {
        out = !is_inner ? out : inner ? inner + z * inner_dir : nullptr;
        keep = is_masked && is_inner ? keep + z * inner_dir : nullptr;
        kept = kept && is_inner ? kept + z * inner_dir : nullptr;
    } else {
        x += z * x_dir, out += z * hidden, keep += keep ? z * hidden : 0, kept += kept ? z * hidden : 0;
    }
    gates += gates ? z * gates_dir : 0, cells += cells ? z * cells_dir : 0;
    hx += hx ? z * hx_dir : 0, cx += cx ? z * cx_dir : 0, hy += hy ? z * hy_dir : 0;
    cy += cy ? z * cy_dir : 0;
    const Share<Tiles, NT> share(group_rows, batch, hidden);
    const int row0 = share.row0, last_row = share.last_row, items = share.items, j = share.j,
              passes = share.passes;
    share.begin(states, hx, hx_row, cx, cx_row);
    float bias_x[G][2] = {}, bias_h[G][2] = {};
    if (j < hidden) {
        bias += z * 2 * G * hidden + j;
        UNROLL for (int g = 0; g < G; ++g) {
            load_pair(bias + g * hidden, bias_x[g][0], bias_x[g][1]);
            load_pair(bias + (G + g) * hidden, bias_h[g][0], bias_h[g][1]);
        }
    }
    const Walk walk = {starts, steps, batch};
    Recurrence<T, MT, NT, 1> product(held, own, resident, rings, k_steps, is_late);
    product.early(has_below ? given + turn(1) : round, pairs, 0);
    hold_all();

    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const int t = walk.time(step, dir), rows = min(walk.rows(t), last_row);
        const i64 first = walk.first(t);
        const uint4* from = round + turn(step);
        unsigned* to = reinterpret_cast<unsigned*>(round + turn(step + 1));
        unsigned* spent = reinterpret_cast<unsigned*>(round + turn(step + RING - 1));
        NO_UNROLL for (int pass = 0; pass < passes; ++pass) {
            Later<T> ahead[Most][G], factor[Most];  // on their way while others still work
            float in[Most][G][2];                // the input side
            UNROLL for (int q = 0; q < Most; ++q) {
                const int b = row0 + pass * 8 * NT + Item(threadIdx.x + 256 * q, Tiles).n;
                const bool here = b < rows && j < hidden;
                UNROLL for (int g = 0; g < G; ++g)
                    ahead[q][g].load(here && !has_below, x + (first + b) * x_row + g * x_gate + j);
                if (IsWave) factor[q].load(here && keep, keep + (first + b) * out_row + j);
            }
            if (has_below) {
                product.turn_to(held_below, under, resident_below);
                product.begin();
                product.run(given + turn(step + 1), pairs, pass * NT / 2);
                product.early(from, pairs, pass * NT / 2);
                product.gather(parts);
                UNROLL for (int q = 0; q < Most; ++q) {
                    const Item item(threadIdx.x + 256 * q, Tiles);
                    if (threadIdx.x + 256 * q < items) UNROLL for (int g = 0; g < G; ++g)
                        product.total(parts, g * Tiles + item.tile, item.pair, item.n, in[q][g]);
                }
                product.turn_to(held, own, resident);
            }
            product.begin();
            product.run(from, pairs, pass * NT / 2);
            product.gather(parts);
            float h[Most][2], c[Most][2], stored[Most][K][2];
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q;
                const Item item(i, Tiles);
                const int n = pass * 8 * NT + item.n, b = row0 + n;
                if (i >= items || b >= last_row || j >= hidden) continue;
                float4& state = states[pass * items + i];
                h[q][0] = state.x, h[q][1] = state.y, c[q][0] = state.z, c[q][1] = state.w;
                if (b < rows) {
                    float again[G][2];
                    UNROLL for (int g = 0; g < G; ++g) {
                        if (!has_below) ahead[q][g].get(in[q][g]);
                        product.total(parts, g * Tiles + item.tile, item.pair, item.n, again[g]);
                    }
                    UNROLL for (int e = 0; e < 2; ++e) {
                        float xs[G], ys[G], kept_of[K];
                        UNROLL for (int g = 0; g < G; ++g)
                            xs[g] = in[q][g][e] + bias_x[g][e], ys[g] = again[g][e] + bias_h[g][e];
                        Cell::forward<T>(xs, ys, h[q][e], c[q][e], kept_of, is_tanh);
                        UNROLL for (int g = 0; g < K; ++g) stored[q][g][e] = kept_of[g];
                        h[q][e] = to_acc(from_acc<T>(h[q][e]));
                    }
                }
                Piece::put(to, j, n, pairs, h[q][0], h[q][1]);
                if (IsWave && keep) {
                    float left[2];
                    factor[q].mask(h[q], left);
                    Piece::put(to + planes * plane * 4, j, n, pairs, left[0], left[1]);
                }
                state = {h[q][0], h[q][1], c[q][0], c[q][1]};
            }
            const bool is_last = pass + 1 == passes;
            if (!is_last || step + 1 < steps)
                product.early(has_below ? given + turn(step + 1 + is_last) : round + turn(step + is_last),
                              pairs, is_last ? 0 : (pass + 1) * NT / 2);
            if (!IsWave) {
                UNROLL for (int q = 0; q < Most; ++q) {
                    const int i = threadIdx.x + 256 * q, n = pass * 8 * NT + Item(i, Tiles).n;
                    if (i < items && row0 + n < last_row && j < hidden) Piece::clear(spent, j, n, pairs);
                }
                __threadfence();
            }
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q, b = row0 + pass * 8 * NT + Item(i, Tiles).n;
                if (i >= items || b >= rows || j >= hidden) continue;
                const i64 row = first + b, o = row * out_row + j;
                if (!IsWave || out) store_pair(out + o, h[q]);
                if (kept) {
                    if (!IsWave) factor[q].load(true, keep + o);
                    factor[q].mask(h[q], h[q]);
                    store_pair(kept + o, h[q]);
                }
                if (gates) UNROLL for (int g = 0; g < K; ++g)
                    store_pair(gates + (row * K + g) * hidden + j, stored[q][g]);
                if (Cell::has_c && cells) store_pair(cells + row * hidden + j, c[q]);
            }
        }
    }
    share.end(states, hy, hy_row, cy, cy_row);
}
