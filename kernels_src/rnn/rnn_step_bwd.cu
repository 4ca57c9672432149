/*@kernel
name    = "rnn_step_bwd_{T}_{CELL}_{SHAPE}"
about   = """One step back of one layer of a recurrent network, both directions: the gradient of h from that \
             of the step behind, then those of the gates before their functions."""
T       = ["f32", "f16", "bf16", "f64"]
CELL    = ["vanilla", "lstm", "gru"]
SHAPE   = ["wide", "narrow"]
targets = ["sm_75"]
params  = ["const T* weights", "T* gates", "const T* cells", "const T* out", "const T* dout", "const T* keep",
           "const T* hx", "const T* cx", "const T* dhy", "const T* dcy", "T* dhx", "T* dcx", "Acc_T* carry",
           "Acc_T* carry_c", "const int* starts", "int step", "int steps", "int batch", "int hidden",
           "int is_tanh", "int64_t weights_dir", "int64_t gates_dir", "int64_t cells_dir", "int64_t out_row",
           "int64_t hx_dir", "int64_t hx_row", "int64_t cx_dir", "int64_t cx_row", "int64_t dhy_dir",
           "int64_t dhy_row", "int64_t dcy_dir", "int64_t dcy_row", "int64_t dhx_dir", "int64_t dhx_row",
           "int64_t dcx_dir", "int64_t dcx_row"]
block   = [256, 1, 1]
grid    = ["ceil_div(hidden, 32 if SHAPE == 'wide' else 8)", "ceil_div(batch, 64 if SHAPE == 'wide' else 16)",
           "directions"]
extra   = ["directions"]
needs   = ["hidden >= 1", "batch >= 1", "-1 <= step", "step < steps"]
problems = ["""rnn_bwd_data t2n{66 if SHAPE == 'wide' else 17}i5 hidden=35 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} {'acc=f64' if T == 'f64' else ''}""",
            """rnn_bwd_data t3n9i8 cell={'tanh' if CELL == 'vanilla' else CELL} hidden=8 batches=9,8,5 \
               bidirectional=True dhy=none dcy=none hx=none cx=none layers=2 dropout=0.5 {T} \
               {'acc=f64' if T == 'f64' else ''}""",
            """rnn_bwd_data t2n9i3 hidden=5 layers=2 dropout=0.5 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} {'acc=f64' if T == 'f64' else ''}"""]
@*/
// `step` counts down in the order of a direction. Rows whose first step is the one behind give the gradients
// of their initial states; at -1 that are all that are left. Rows whose last step this is have nothing
// behind. A thread replaces what forward kept of its element by the gradients (GRU: r, i, n, and q in the
// fourth place). `carry` has what comes from the step behind without a product, `carry_c` the gradient of c.
#include "rnn/cell.cuh"
#include "rnn/product.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* weights, T* gates, const T* cells, const T* out, const T* dout, const T* keep, const T* hx,
    const T* cx, const T* dhy, const T* dcy, T* dhx, T* dcx, acc_t<T>* carry, acc_t<T>* carry_c,
    const int* starts, int step, int steps, int batch, int hidden, int is_tanh, i64 weights_dir,
    i64 gates_dir, i64 cells_dir, i64 out_row, i64 hx_dir, i64 hx_row, i64 cx_dir, i64 cx_row, i64 dhy_dir,
    i64 dhy_row, i64 dcy_dir, i64 dcy_row, i64 dhx_dir, i64 dhx_row, i64 dcx_dir, i64 dcx_row) {
    using A = acc_t<T>;
    using Cell = CELL::Cell;
    constexpr int G = Cell::Gates, K = Cell::Kept;
    using Sums = Product<A, 1, SHAPE::Batch, SHAPE::Lanes>;
    const int dir = blockIdx.z, unit0 = blockIdx.x * Sums::Units, batch0 = blockIdx.y * Sums::Columns;
    const Walk walk = {starts, steps, batch};
    const int t = walk.time(step, dir), before = dir ? t + 1 : t - 1, behind = dir ? t - 1 : t + 1;
    const int rows = walk.rows(t), rows_before = walk.rows(before), rows_behind = walk.rows(behind);
    const int all = max(rows, rows_behind);
    if (batch0 >= all) return;
    const i64 first = rows ? walk.first(t) : 0, first_before = rows_before ? walk.first(before) : 0,
              first_behind = rows_behind ? walk.first(behind) : 0;
    weights += dir * weights_dir, gates += dir * gates_dir, out += dir * hidden;

    Sums product;
    product.run<false>(
        rows_behind > batch0 ? G * hidden : 0,
        [&](int, int u, int k) {
            return unit0 + u < hidden && k < G * hidden ? to_acc(weights[i64(k) * hidden + unit0 + u]) : A(0);
        },
        [&](int b, int k) {
            if (batch0 + b >= rows_behind || k >= G * hidden) return A(0);
            const int place = K > G && k >= 2 * hidden ? k + hidden : k;
            return to_acc(gates[(first_behind + batch0 + b) * K * hidden + place]);
        });

    const int j = unit0 + product.unit;
    if (j >= hidden) return;
    UNROLL for (int q = 0; q < SHAPE::Batch; ++q) {
        const int b = batch0 + product.first + q;
        if (q % SHAPE::Lanes != product.part % SHAPE::Batch || product.part >= SHAPE::Batch || b >= all)
            continue;
        const i64 at = (i64(dir) * batch + b) * hidden + j;
        const bool is_last = b >= rows_behind;
        A dh = product.sums[0][q];
        if (!is_last) dh += carry[at];
        else if (dhy) dh += to_acc(dhy[dir * dhy_dir + b * dhy_row + j]);
        A dc = 0;
        if (Cell::has_c)
            dc = !is_last ? carry_c[at] : dcy ? to_acc(dcy[dir * dcy_dir + b * dcy_row + j]) : A(0);
        if (b >= rows) {                             // its first step is behind
            if (dhx) dhx[dir * dhx_dir + b * dhx_row + j] = from_acc<T>(dh);
            if (Cell::has_c && dcx) dcx[dir * dcx_dir + b * dcx_row + j] = from_acc<T>(dc);
            continue;
        }
        const i64 o = (first + b) * out_row + j, o_before = (first_before + b) * out_row + j;
        A more = to_acc(dout[dir * hidden + o]);
        if (keep) {
            const A factor = to_acc(keep[dir * hidden + o]);
            more = factor == 0 ? A(0) : more * factor;
        }
        dh += more;
        T* mine = gates + (first + b) * K * hidden + j;
        A stored[K], delta[K];
        UNROLL for (int g = 0; g < K; ++g) stored[g] = to_acc(mine[g * hidden]);
        Memory<A> s = {0, 0, 0, dc};
        if (Cell::has_h)
            s.h_before = b < rows_before ? to_acc(out[o_before])
                                         : hx ? to_acc(hx[dir * hx_dir + b * hx_row + j]) : A(0);
        if (Cell::has_c) {
            const T* c = cells + dir * cells_dir + j;
            s.c = to_acc(c[(first + b) * hidden]);
            s.c_before = b < rows_before ? to_acc(c[(first_before + b) * hidden])
                                         : cx ? to_acc(cx[dir * cx_dir + b * cx_row + j]) : A(0);
        }
        Cell::backward(stored, dh, s, delta, is_tanh);
        UNROLL for (int g = 0; g < K; ++g) mine[g * hidden] = from_acc<T>(delta[g]);
        carry[at] = dh;
        if (Cell::has_c) carry_c[at] = s.dc;
    }
}
