/*@kernel
name    = "rnn_step_{T}_{CELL}_{SHAPE}"
about   = "One step of one layer of a recurrent network, both directions: recurrent product, gates, states."
T       = ["f32", "f16", "bf16", "f64"]
CELL    = ["vanilla", "lstm", "gru"]
SHAPE   = ["wide", "narrow"]
targets = ["sm_75"]
params  = ["const T* weights", "const T* bias", "const T* x", "T* gates", "T* cells", "T* out",
           "const T* keep", "T* kept", "const T* hx", "const T* cx", "T* hy", "T* cy", "Acc_T* carry",
           "const int* starts", "int step", "int steps", "int batch", "int hidden", "int is_tanh",
           "int64_t weights_dir", "int64_t x_dir", "int64_t x_row", "int64_t x_gate", "int64_t gates_dir",
           "int64_t cells_dir", "int64_t out_row", "int64_t hx_dir", "int64_t hx_row", "int64_t cx_dir",
           "int64_t cx_row", "int64_t hy_dir", "int64_t hy_row", "int64_t cy_dir", "int64_t cy_row"]
block   = [256, 1, 1]
grid    = ["ceil_div(hidden, 32 if SHAPE == 'wide' else 8)", "ceil_div(batch, 64 if SHAPE == 'wide' else 16)",
           "directions"]
extra   = ["directions"]
needs   = ["hidden >= 1", "batch >= 1", "0 <= step", "step < steps"]
problems = ["""rnn_fwd t3n{66 if SHAPE == 'wide' else 17}i5 hidden=35 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} {'acc=f64' if T == 'f64' else ''}""",
            """rnn_fwd t3n9i8 cell={'tanh' if CELL == 'vanilla' else CELL} hidden=8 layers=2 batches=9,8,5 \
               bidirectional=True input=skip dropout=0.5 {T} {'acc=f64' if T == 'f64' else ''}""",
            """rnn_fwd t2n8i4 cell={'tanh' if CELL == 'vanilla' else CELL} hidden=5 reserve=none hx=none \
               cx=none {T} {'acc=f64' if T == 'f64' else ''}""",
            """rnn_fwd t2n9i3 hidden=5 layers=2 dropout=0.5 \
               cell={'relu' if CELL == 'vanilla' else CELL} {T} {'acc=f64' if T == 'f64' else ''}"""]
@*/
// The step's place in the order of a direction is `step`; block z is the direction. x is the input side of
// the gates before their functions, without its bias; it may be `gates`, whose element a thread reads before
// it writes it. h of the step before is read from `out`, c from `carry` (in the type of sums).
#include "rnn/cell.cuh"
#include "rnn/product.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* weights, const T* bias, const T* x, T* gates, T* cells, T* out, const T* keep, T* kept,
    const T* hx, const T* cx, T* hy, T* cy, acc_t<T>* carry, const int* starts, int step, int steps,
    int batch, int hidden, int is_tanh, i64 weights_dir, i64 x_dir, i64 x_row, i64 x_gate, i64 gates_dir,
    i64 cells_dir, i64 out_row, i64 hx_dir, i64 hx_row, i64 cx_dir, i64 cx_row, i64 hy_dir, i64 hy_row,
    i64 cy_dir, i64 cy_row) {
    using A = acc_t<T>;
    using Cell = CELL::Cell;
    constexpr int G = Cell::Gates, K = Cell::Kept;
    using Sums = Product<A, G, SHAPE::Batch, SHAPE::Lanes>;
    const int dir = blockIdx.z, unit0 = blockIdx.x * Sums::Units, batch0 = blockIdx.y * Sums::Columns;
    const Walk walk = {starts, steps, batch};
    const int t = walk.time(step, dir), before = dir ? t + 1 : t - 1;
    const int rows = walk.rows(t), rows_before = walk.rows(before);
    if (batch0 >= rows) return;
    const i64 first = walk.first(t), first_before = rows_before ? walk.first(before) : 0;
    weights += dir * weights_dir, bias += dir * 2 * G * hidden, x += dir * x_dir, out += dir * hidden;
    // what was before the first step of a row is its initial state
    const auto h_before = [&](int b, int k) {
        if (b < rows_before) return to_acc(out[(first_before + b) * out_row + k]);
        return hx ? to_acc(hx[dir * hx_dir + b * hx_row + k]) : A(0);
    };

    Sums product;
    product.run<true>(
        hidden,
        [&](int g, int u, int k) {
            return unit0 + u < hidden && k < hidden
                       ? to_acc(weights[(i64(g) * hidden + unit0 + u) * hidden + k]) : A(0);
        },
        [&](int b, int k) { return batch0 + b < rows && k < hidden ? h_before(batch0 + b, k) : A(0); });

    const int j = unit0 + product.unit;
    if (j >= hidden) return;
    UNROLL for (int q = 0; q < SHAPE::Batch; ++q) {
        const int b = batch0 + product.first + q;
        if (q % SHAPE::Lanes != product.part % SHAPE::Batch || product.part >= SHAPE::Batch || b >= rows)
            continue;
        A in[G], again[G], stored[K], h = Cell::has_h ? h_before(b, j) : A(0), c = 0;
        UNROLL for (int g = 0; g < G; ++g) {
            in[g] = to_acc(x[(first + b) * x_row + g * x_gate + j]) + to_acc(bias[g * hidden + j]);
            again[g] = product.sums[g][q] + to_acc(bias[(G + g) * hidden + j]);
        }
        const i64 at = (i64(dir) * batch + b) * hidden + j;
        if (Cell::has_c)
            c = b < rows_before ? carry[at] : cx ? to_acc(cx[dir * cx_dir + b * cx_row + j]) : A(0);
        Cell::forward<T>(in, again, h, c, stored, is_tanh);
        const i64 o = (first + b) * out_row + j;
        const T rounded = from_acc<T>(h);
        out[o] = rounded;
        if (kept) {
            const A factor = to_acc(keep[dir * hidden + o]);
            kept[dir * hidden + o] = factor == 0 ? T(0.f) : from_acc<T>(to_acc(rounded) * factor);
        }
        if (gates) {
            gates += dir * gates_dir;
            UNROLL for (int g = 0; g < K; ++g)
                gates[((first + b) * K + g) * hidden + j] = from_acc<T>(stored[g]);
            gates -= dir * gates_dir;
        }
        const bool is_last = dir ? t == 0 : b >= walk.rows(t + 1);
        if (hy && is_last) hy[dir * hy_dir + b * hy_row + j] = rounded;
        if (Cell::has_c) {
            carry[at] = c;
            if (cells) cells[dir * cells_dir + (first + b) * hidden + j] = from_acc<T>(c);
            if (cy && is_last) cy[dir * cy_dir + b * cy_row + j] = from_acc<T>(c);
        }
    }
}
