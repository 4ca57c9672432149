/*@kernel
name    = "rnn_persist_{T}_{CELL}_{MT}x{NT}"
about   = """All steps of one layer of a recurrent network in one launch: blocks keep the recurrent weights \
             of their units, and exchange states through L2 (mma.sync, f32 sums)."""
T       = ["f16", "bf16", "f32"]
CELL    = ["vanilla", "lstm", "gru"]
MT      = [1, 2, 3, 4, 6, 8]
NT      = [4, 2, 8]
targets = ["sm_80"]
when    = ["MT <= 2 if CELL == 'vanilla' else MT == 4 or MT == 8 if CELL == 'lstm' else MT == 3 or MT == 6",
           "NT != 8 or T != f32 and MT != 2 and MT <= 4", "NT == 2 or MT != 8"]
params  = ["const T* weights", "T* exchange", "const T* bias", "const T* x", "T* gates",
           "T* cells", "T* out", "const T* keep", "T* kept", "const T* hx", "const T* cx", "T* hy", "T* cy",
           "const int* starts", "int steps", "int batch", "int hidden", "int is_tanh",
           "int group_rows", "int resident", "int stages", "int64_t x_dir", "int64_t x_row", "int64_t x_gate",
           "int64_t gates_dir", "int64_t cells_dir", "int64_t out_row", "int64_t hx_dir", "int64_t hx_row",
           "int64_t cx_dir", "int64_t cx_row", "int64_t hy_dir", "int64_t hy_row", "int64_t cy_dir",
           "int64_t cy_row"]
block   = [256, 1, 1]
grid    = ["ceil_div(hidden, 16 * tiles)", "ceil_div(batch, group_rows)", "directions"]
smem    = """512 * (resident + 8 * stages) * MT + 2560 * MT * NT \
             + 1024 * tiles * NT * ceil_div(group_rows, 8 * NT)"""
extra   = ["directions", "tiles"]
cooperative = true
needs   = ["hidden % 2 == 0", "steps >= 1", "1 <= tiles", "tiles <= 2", "tiles * NT <= 8",
           "group_rows % 16 == 0"]
problems = ["""rnn_fwd t1n{5 if NT == 2 else 20 if NT == 4 else 70}i8 {T} \
               cell={'tanh' if CELL == 'vanilla' else CELL} \
               hidden={(1024 if NT == 2 else 512 if NT == 4 else 192) * 2 // sizeof(T)}""",
            """rnn_fwd t3n{5 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=40 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T}""",
            """rnn_fwd t2n{16 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} \
               bidirectional=True {T}""",
            """rnn_fwd t3n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=8 \
               batches={4 if NT == 2 else 20 if NT == 4 else 70},3,2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} bidirectional=True {T}""",
            """rnn_fwd t2n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 dropout=0.5 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} \
               hx=none cx=none"""]
@*/
// weights and exchange are those of rnn_pack. x is the input side of the gates before their functions,
// without its bias; it may be `gates`, whose element a thread reads before it writes it. Steps of a row
// behind its last keep its state.
#include "rnn/persist.cuh"

extern "C" __global__ __launch_bounds__(256, 1) void KERNEL(
    const T* weights, T* exchange, const T* bias, const T* x, T* gates, T* cells, T* out, const T* keep,
    T* kept, const T* hx, const T* cx, T* hy, T* cy, const int* starts, int steps, int batch, int hidden,
    int is_tanh, int group_rows, int resident, int stages, i64 x_dir, i64 x_row,
    i64 x_gate, i64 gates_dir, i64 cells_dir, i64 out_row, i64 hx_dir, i64 hx_row, i64 cx_dir, i64 cx_row,
    i64 hy_dir, i64 hy_row, i64 cy_dir, i64 cy_row) {
    using Cell = CELL::Cell;
    using Piece = Fragment<T>;
    constexpr int G = Cell::Gates, K = Cell::Kept, Tiles = MT / G, Most = Tiles * NT > 4 ? 2 : 1;
    extern __shared__ uint4 held[];
    float2* parts = reinterpret_cast<float2*>(held + (resident + 8 * stages) * MT * 32);
    float4* states = reinterpret_cast<float4*>(parts + 4 * MT * NT * 80);
    const int dir = blockIdx.z, slot = blockIdx.x, groups = gridDim.y;
    const int k_steps = ceil_div(hidden, Piece::Depth), pairs = group_rows / 16,
              passes = ceil_div(group_rows, 8 * NT);
    const i64 words = i64(k_steps) * MT * 32, area = i64(k_steps) * pairs * 32;
    const uint4* own = reinterpret_cast<const uint4*>(weights) + (dir * gridDim.x + slot) * words;
    NO_UNROLL for (int i = threadIdx.x; i < resident * MT * 32; i += 256) held[i] = __ldg(own + i);
    uint4* round = reinterpret_cast<uint4*>(exchange) + (dir * groups + blockIdx.y) * area;
    const i64 apart = gridDim.z * groups * area;

    const int row0 = blockIdx.y * group_rows, last_row = min(batch, row0 + group_rows);
    const int items = Tiles * NT * 64;           // of a pass; a thread has every 256th
    x += dir * x_dir, gates += gates ? dir * gates_dir : 0, out += dir * hidden;
    keep += keep ? dir * hidden : 0, kept += kept ? dir * hidden : 0, cells += cells ? dir * cells_dir : 0;
    hx += hx ? dir * hx_dir : 0, cx += cx ? dir * cx_dir : 0, hy += hy ? dir * hy_dir : 0;
    cy += cy ? dir * cy_dir : 0;
    float bias_x[G][2] = {}, bias_h[G][2] = {};  // the units of all items of a thread are the same
    const int j = Item(threadIdx.x, Tiles).unit(slot, Tiles);
    if (j < hidden) {
        bias += dir * 2 * G * hidden + j;
        UNROLL for (int g = 0; g < G; ++g) {
            load_pair(bias + g * hidden, bias_x[g][0], bias_x[g][1]);
            load_pair(bias + (G + g) * hidden, bias_h[g][0], bias_h[g][1]);
        }
    }
    NO_UNROLL for (int i = threadIdx.x; i < items * passes; i += 256) {
        const int b = row0 + i / items * 8 * NT + Item(i % items, Tiles).n;
        float h[2], c[2];
        pair_or_zero(hx && b < last_row && j < hidden, hx + b * hx_row + j, h);
        pair_or_zero(cx && b < last_row && j < hidden, cx + b * cx_row + j, c);
        states[i] = {h[0], h[1], c[0], c[1]};
    }
    const Walk walk = {starts, steps, batch};
    Recurrence<T, MT, NT> product(held, own, resident, k_steps);
    product.early(round, pairs, 0);
    __syncthreads();

    NO_UNROLL for (int step = 0; step < steps; ++step) {
        const int t = walk.time(step, dir), rows = min(walk.rows(t), last_row);
        const i64 first = walk.first(t);
        const uint4* from = round + step % RING * apart;
        unsigned* to = reinterpret_cast<unsigned*>(round + (step + 1) % RING * apart);
        unsigned* spent = reinterpret_cast<unsigned*>(round + (step + RING - 1) % RING * apart);
        NO_UNROLL for (int pass = 0; pass < passes; ++pass) {
            Later<T> ahead[Most][G];             // the input side, on its way while others still work
            UNROLL for (int q = 0; q < Most; ++q) {
                const int b = row0 + pass * 8 * NT + Item(threadIdx.x + 256 * q, Tiles).n;
                UNROLL for (int g = 0; g < G; ++g)
                    ahead[q][g].load(b < rows && j < hidden, x + (first + b) * x_row + g * x_gate + j);
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
                    float in[G][2], again[G][2];
                    UNROLL for (int g = 0; g < G; ++g) {
                        ahead[q][g].get(in[g]);
                        product.total(parts, g * Tiles + item.tile, item.pair, item.n, again[g]);
                    }
                    UNROLL for (int e = 0; e < 2; ++e) {
                        float xs[G], ys[G], kept_of[K];
                        UNROLL for (int g = 0; g < G; ++g)
                            xs[g] = in[g][e] + bias_x[g][e], ys[g] = again[g][e] + bias_h[g][e];
                        Cell::forward<T>(xs, ys, h[q][e], c[q][e], kept_of, is_tanh);
                        UNROLL for (int g = 0; g < K; ++g) stored[q][g][e] = kept_of[g];
                        h[q][e] = to_acc(from_acc<T>(h[q][e]));
                    }
                }
                Piece::put(to, j, n, pairs, h[q][0], h[q][1]);
                state = {h[q][0], h[q][1], c[q][0], c[q][1]};
            }
            const bool is_last = pass + 1 == passes;
            if (!is_last || step + 1 < steps)
                product.early(is_last ? reinterpret_cast<uint4*>(to) : from, pairs,
                              is_last ? 0 : (pass + 1) * NT / 2);
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q, n = pass * 8 * NT + Item(i, Tiles).n;
                if (i < items && row0 + n < last_row && j < hidden) Piece::clear(spent, j, n, pairs);
            }
            __threadfence();
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q, b = row0 + pass * 8 * NT + Item(i, Tiles).n;
                if (i >= items || b >= rows || j >= hidden) continue;
                const i64 row = first + b, o = row * out_row + j;
                store_pair(out + o, h[q]);
                if (kept) {
                    float factor[2];
                    load_pair(keep + o, factor[0], factor[1]);
                    UNROLL for (int e = 0; e < 2; ++e) h[q][e] = factor[e] == 0 ? 0.f : h[q][e] * factor[e];
                    store_pair(kept + o, h[q]);
                }
                if (gates) UNROLL for (int g = 0; g < K; ++g)
                    store_pair(gates + (row * K + g) * hidden + j, stored[q][g]);
                if (Cell::has_c && cells) store_pair(cells + row * hidden + j, c[q]);
            }
        }
    }

    NO_UNROLL for (int i = threadIdx.x; i < items * passes && j < hidden; i += 256) {
        const int b = row0 + i / items * 8 * NT + Item(i % items, Tiles).n;
        if (b >= last_row) continue;
        const float h[2] = {states[i].x, states[i].y}, c[2] = {states[i].z, states[i].w};
        if (hy) store_pair(hy + b * hy_row + j, h);
        if (cy) store_pair(cy + b * cy_row + j, c);
    }
}
