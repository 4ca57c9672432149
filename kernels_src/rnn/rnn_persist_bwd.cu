/*@kernel
name    = "rnn_persist_bwd_{T}_{CELL}_{MT}x{NT}_{TEAM}"
about   = """All steps back of one layer of a recurrent network in one launch: blocks keep the transposed \
             recurrent weights of their units, and exchange gradients of gates through L2; teams of {TEAM} \
             share the depth."""
T       = ["f16", "bf16", "f32"]
CELL    = ["vanilla", "lstm", "gru"]
MT      = [1, 2, 4]
NT      = [4, 2, 8]
TEAM    = [1, 2]
targets = ["sm_80", "sm_90"]
when    = ["TEAM == (1 if sm < 90 else 2)",
           "NT < 8 and 2 * MT <= NT if TEAM == 1 else T != f32 and MT > 1 and MT * NT <= 16"]
params  = ["const T* weights", "T* exchange", "T* gates", "const T* cells", "const T* out",
           "const T* dout", "const T* keep", "const T* hx", "const T* cx", "const T* dhy", "const T* dcy",
           "T* dhx", "T* dcx", "const int* starts", "int steps", "int batch", "int hidden", "int is_tanh",
           "int group_rows", "int resident", "int stages", "int is_late", "int64_t gates_dir",
           "int64_t cells_dir", "int64_t out_row", "int64_t hx_dir", "int64_t hx_row", "int64_t cx_dir",
           "int64_t cx_row", "int64_t dhy_dir", "int64_t dhy_row", "int64_t dcy_dir", "int64_t dcy_row",
           "int64_t dhx_dir", "int64_t dhx_row", "int64_t dcx_dir", "int64_t dcx_row"]
block   = [256, 1, 1]
grid    = ["TEAM * ceil_div(hidden, 16 * TEAM * tiles)", "ceil_div(batch, group_rows)", "planes"]
cluster = ["TEAM", 1, 1]
smem    = """512 * (resident + 8 * stages) * MT + 2560 * MT * NT \
             + 1024 * tiles * NT * (TEAM - 1 + ceil_div(group_rows, 8 * NT))"""
extra   = ["planes", "tiles"]
cooperative = true
needs   = ["hidden % 2 == 0", "steps >= 1", "TEAM * tiles == MT", "group_rows % 16 == 0"]
problems = ["""rnn_bwd_data t1n{5 if NT == 2 else 20 if NT == 4 else 70}i8 {T} \
               cell={'tanh' if CELL == 'vanilla' else CELL} \
               hidden={TEAM * (33 if T == f32 else 9 if NT == 8 else 57 if NT == 2 else 25) \
                       * 32 // sizeof(T) // (1 if CELL == 'vanilla' else 4 if CELL == 'lstm' else 3) \
                       // 2 * 2 + 8}""",
            """rnn_bwd_data t3n{5 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=40 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T}""",
            """rnn_bwd_data t2n{16 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} \
               bidirectional=True {T}""",
            """rnn_bwd_data t3n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=8 layers=2 dropout=0.5 \
               batches={4 if NT == 2 else 20 if NT == 4 else 70},3,2 \
               cell={'tanh' if CELL == 'vanilla' else CELL} bidirectional=True {T}""",
            """rnn_bwd_data t2n{4 if NT == 2 else 20 if NT == 4 else 70}i8 hidden=24 layers=2 dropout=0.5 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} \
               hx=none cx=none"""]
@*/
// As rnn_persist, in the reverse order of steps: what goes round are the gradients of the gates before their
// functions (GRU: r, i and that of q), so the depth is all gates. A row that is not in a step gives zeros and
// keeps its gradients. What forward kept is replaced by the gradients of the gates.
#include "rnn/persist.cuh"

extern "C" __global__ __launch_bounds__(256, 1) void KERNEL(
    const T* weights, T* exchange, T* gates, const T* cells, const T* out, const T* dout, const T* keep,
    const T* hx, const T* cx, const T* dhy, const T* dcy, T* dhx, T* dcx, const int* starts, int steps,
    int batch, int hidden, int is_tanh, int group_rows, int resident, int stages, int is_late, i64 gates_dir,
    i64 cells_dir, i64 out_row, i64 hx_dir, i64 hx_row, i64 cx_dir, i64 cx_row, i64 dhy_dir, i64 dhy_row,
    i64 dcy_dir, i64 dcy_row, i64 dhx_dir, i64 dhx_row, i64 dcx_dir, i64 dcx_row) {
    using Cell = CELL::Cell;
    using Piece = Fragment<T>;
    constexpr int G = Cell::Gates, K = Cell::Kept, Tiles = MT / TEAM, Most = Tiles * NT > 4 ? 2 : 1;
    extern __shared__ uint4 held[];
    uint4* rings = held + resident * MT * 32;
    float2* parts = reinterpret_cast<float2*>(rings + 8 * stages * MT * 32);
    float2* inbox = parts + 4 * MT * NT * 80;
    float4* states = reinterpret_cast<float4*>(inbox + 2 * (TEAM - 1) * Tiles * NT * 64);
    const int dir = blockIdx.z, team = blockIdx.x / TEAM, groups = gridDim.y, pairs = group_rows / 16,
              each = ceil_div(hidden, Piece::Depth), k_steps = G * each;
    const i64 words = i64(k_steps) * MT * 32, area = i64(k_steps) * pairs * 32;
    const uint4* own = reinterpret_cast<const uint4*>(weights) + (dir * (gridDim.x / TEAM) + team) * words;
    hold<MT, TEAM>(held, own, resident, k_steps);
    uint4* round = reinterpret_cast<uint4*>(exchange) + (dir * groups + blockIdx.y) * area;
    const i64 apart = gridDim.z * groups * area;

    const Share<Tiles, NT> share(group_rows, batch, hidden);
    const int row0 = share.row0, last_row = share.last_row, items = share.items, j = share.j,
              passes = share.passes;
    gates += dir * gates_dir, cells += dir * cells_dir, out += dir * hidden, dout += dir * hidden;
    keep += keep ? dir * hidden : 0, hx += hx ? dir * hx_dir : 0, cx += cx ? dir * cx_dir : 0;
    dhy += dhy ? dir * dhy_dir : 0, dcy += dcy ? dir * dcy_dir : 0;
    dhx += dhx ? dir * dhx_dir : 0, dcx += dcx ? dir * dcx_dir : 0;
    share.begin(states, dhy, dhy_row, dcy, dcy_row);
    const Walk walk = {starts, steps, batch};
    Recurrence<T, MT, NT, TEAM> product(held, own, resident, rings, k_steps, is_late);
    Teammates<Tiles, NT, TEAM> mates(inbox);
    product.early(round, pairs, 0);
    hold_all();

    NO_UNROLL for (int step = steps - 1; step >= -1; --step) {
        const int t = walk.time(step, dir), before = dir ? t + 1 : t - 1, done = steps - 1 - step;
        const int rows = min(walk.rows(t), last_row), rows_before = walk.rows(before);
        const i64 first = rows ? walk.first(t) : 0, first_before = rows_before ? walk.first(before) : 0;
        const uint4* from = round + done % RING * apart;
        unsigned* to = reinterpret_cast<unsigned*>(round + (done + 1) % RING * apart);
        unsigned* spent = reinterpret_cast<unsigned*>(round + (done + RING - 1) % RING * apart);
        NO_UNROLL for (int pass = 0; pass < passes; ++pass) {
            // what forward left, on its way while others still work
            Later<T> left[Most][K], more[Most], factor[Most], now[Most], was[Most];
            UNROLL for (int q = 0; q < Most; ++q) {
                const int b = row0 + pass * 8 * NT + Item(threadIdx.x + 256 * q, Tiles).n;
                const bool here = b < rows && j < hidden, has = b < rows_before;
                const i64 row = first + b, o = row * out_row + j;
                UNROLL for (int g = 0; g < K; ++g) left[q][g].load(here, gates + (row * K + g) * hidden + j);
                more[q].load(here, dout + o);
                factor[q].load(here && keep, keep + o);
                now[q].load(here && Cell::has_c, cells + row * hidden + j);
                const T* initial = Cell::has_c ? cx : hx;
                was[q].load(here && (Cell::has_c || Cell::has_h) && (has || initial),
                            j + (!has ? initial + b * (Cell::has_c ? cx_row : hx_row) :
                                 Cell::has_c ? cells + (first_before + b) * hidden
                                             : out + (first_before + b) * out_row));
            }
            product.begin();
            product.run(from, pairs, pass * NT / 2);
            product.gather(parts);
            mates.meet(product, parts);
            float delta[Most][K][2] = {};
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q;
                const Item item(i, Tiles);
                const int n = pass * 8 * NT + item.n, b = row0 + n;
                if (i >= items || b >= last_row || j >= hidden) continue;
                float dh[2], stored[K][2], gradient[2], keeps[2], c[2], earlier[2];
                mates.total(product, parts, i, item, dh);
                float4& state = states[pass * items + i];
                float dc[2] = {state.z, state.w};
                dh[0] += state.x, dh[1] += state.y;
                UNROLL for (int g = 0; g < K; ++g) left[q][g].get(stored[g]);
                more[q].get(gradient), factor[q].get(keeps), now[q].get(c), was[q].get(earlier);
                UNROLL for (int e = 0; e < 2; ++e) if (b < rows) {
                    float mine[K], out_of[K];
                    UNROLL for (int g = 0; g < K; ++g) mine[g] = stored[g][e];
                    Memory<float> s = {earlier[e], earlier[e], c[e], dc[e]};
                    dh[e] += !keep ? gradient[e] : keeps[e] == 0 ? 0.f : gradient[e] * keeps[e];
                    Cell::backward(mine, dh[e], s, out_of, is_tanh);
                    dc[e] = s.dc;
                    UNROLL for (int g = 0; g < K; ++g) delta[q][g][e] = out_of[g];
                }
                UNROLL for (int g = 0; g < G; ++g) {
                    const int from_ = K > G && g == G - 1 ? K - 1 : g, k = g * each * Piece::Depth + j;
                    Piece::put(to, k, n, pairs, delta[q][from_][0], delta[q][from_][1]);
                }
                state = {dh[0], dh[1], dc[0], dc[1]};
            }
            const bool is_last = pass + 1 == passes;
            if (!is_last || step >= 0)
                product.early(is_last ? reinterpret_cast<uint4*>(to) : from, pairs,
                              is_last ? 0 : (pass + 1) * NT / 2);
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q, n = pass * 8 * NT + Item(i, Tiles).n;
                if (i < items && row0 + n < last_row && j < hidden) UNROLL for (int g = 0; g < G; ++g)
                    Piece::clear(spent, g * each * Piece::Depth + j, n, pairs);
            }
            __threadfence();
            UNROLL for (int q = 0; q < Most; ++q) {
                const int i = threadIdx.x + 256 * q, b = row0 + pass * 8 * NT + Item(i, Tiles).n;
                if (i < items && b < rows && j < hidden) UNROLL for (int g = 0; g < K; ++g)
                    store_pair(gates + ((first + b) * K + g) * hidden + j, delta[q][g]);
            }
        }
    }
    share.end(states, dhx, dhx_row, dcx, dcx_row);
}
