/*@kernel
name    = "rnn_bias_{T}_{VEC}"
about   = """Gradients of both biases of a layer, and h of the step before for every row, both directions: \
             what recurrent weights were multiplied by."""
T       = ["f32", "f16", "bf16", "f64"]
VEC     = [1, 8]
targets = ["sm_75"]
params  = ["const T* x", "Acc_T* part", "void* dw", "int dw_type", "int rows", "int gates", "int kept",
           "int hidden", "int splits", "int lanes", "int64_t x_dir", "int64_t dw_dir", "const T* out",
           "const T* hx", "T* to", "const int* starts", "int steps", "int batch", "int shares",
           "int64_t out_row", "int64_t hx_dir", "int64_t hx_row", "int64_t to_dir"]
block   = [256, 1, 1]
grid    = ["ceil_div(kept * hidden, lanes * VEC) * splits + steps * shares", "directions", 1]
extra   = ["directions"]
needs   = ["hidden % VEC == 0", "steps >= 1", "shares >= 0", "batch * hidden <= 2147482624",
           "kept * hidden < 2147483648", "1 <= rows < 2**30", "1 <= splits < 2**20",
           "lanes in (1, 2, 4, 8, 16, 32, 64, 128, 256)", "0 <= dw_type < 4"]
problems = ["rnn_bwd_weights t3n5i8 cell=tanh hidden={8 if VEC == 8 else 5} bidirectional=True {T}",
            "rnn_bwd_weights t3n300i8 cell=tanh hidden={64 if VEC == 8 else 7} {T}",
            """rnn_bwd_weights t3n4i4 cell=gru hidden={16 if VEC == 8 else 3} batches=4,3,2 hx=none \
               bidirectional=True {T}""",
            """rnn_bwd_weights t3n24i4 cell=gru hidden={16 if VEC == 8 else 3} \
               {'bf16' if T == 'f32' else T}""",
            """rnn_bwd_weights t2n36i4 cell=lstm hidden={8 if VEC == 8 else 3} \
               {'f16' if T == 'f32' else T}"""]
@*/
// The first blocks of a direction sum columns of x, the gradients of gates (or parts of such sums) of all
// rows: `lanes` times VEC neighbours in 256 / lanes groups of rows, a split is a range of rows. With one
// split the sums are added to both biases in dw, else they go to part[direction][split][column]; a last
// launch has the parts as its rows. The recurrent side of the last gate of GRU has a column of its own.
// dw_type is the place of dw's type in f64 f32 f16 bf16; only parts of f32 have another than their own.
// The other blocks, `shares` of them a time, copy the rows of one time: h of the step before, or the initial
// state.
#include "rnn/cell.cuh"

using Values = Vec<T, VEC>;
using Sums = Acc_T[VEC];
constexpr int AHEAD = VEC == 1 ? 8 : 16 / sizeof(T);               // loads in flight a thread
constexpr int EACH = 4;                                            // vectors that a thread copies

template <class Elem> DEVICE void add_as(void* dw, i64 at, const Sums& all) {
    Elem* const p = static_cast<Elem*>(dw) + at;
    Sums values;
    Vec<Elem, VEC>::load(p).get(values);
    UNROLL for (int i = 0; i < VEC; ++i) values[i] += all[i];
    Vec<Elem, VEC>::of(values).store(p);
}
DEVICE void add(void* dw, int dw_type, i64 at, const Sums& all) {
    if constexpr (sizeof(T) == 4) {
        if (dw_type == 2) return add_as<f16>(dw, at, all);
        if (dw_type == 3) return add_as<bf16>(dw, at, all);
    }
    add_as<T>(dw, at, all);
}

DEVICE void copy(int block, const T* out, const T* hx, T* to, const Walk& walk, int hidden, int shares,
                 i64 out_row, i64 hx_row, bool is_reverse) {
    const int t = block / shares, begin = block % shares * (256 * EACH), width = hidden / VEC;
    const int before = is_reverse ? t + 1 : t - 1, rows = walk.rows(t), rows_before = walk.rows(before);
    const i64 first = walk.first(t), first_before = rows_before ? walk.first(before) : 0;
    Values v[EACH] = {};
    UNROLL for (int e = 0; e < EACH; ++e) {
        const int i = begin + e * 256 + threadIdx.x, b = i / width, j = i % width * VEC;
        const bool is_out = b < rows_before;
        const T* const from = is_out ? out + first_before * out_row : hx;
        if (b < rows && from) v[e] = Values::load(from + b * (is_out ? out_row : hx_row) + j);
    }
    UNROLL for (int e = 0; e < EACH; ++e) {
        const int i = begin + e * 256 + threadIdx.x;
        if (i / width < rows) v[e].store(to + first * hidden + i64(i) * VEC);
    }
}

extern "C" __global__ __launch_bounds__(256, 4) void KERNEL(
    const T* x, Acc_T* part, void* dw, int dw_type, int rows, int gates, int kept, int hidden, int splits,
    int lanes, i64 x_dir, i64 dw_dir, const T* out, const T* hx, T* to, const int* starts, int steps,
    int batch, int shares, i64 out_row, i64 hx_dir, i64 hx_row, i64 to_dir) {
    __shared__ Acc_T sums[VEC][256];
    const int dir = blockIdx.y, columns = kept * hidden, sides = ceil_div(columns, lanes * VEC) * splits;
    if (int(blockIdx.x) >= sides)
        return copy(blockIdx.x - sides, out + dir * hidden, hx ? hx + dir * hx_dir : hx, to + dir * to_dir,
                    {starts, steps, batch}, hidden, shares, out_row, hx_row, dir);

    const int lane = threadIdx.x & (lanes - 1), group = threadIdx.x / lanes, groups = 256 / lanes;
    const int split = blockIdx.x % unsigned(splits);
    const i64 column = (i64(blockIdx.x / unsigned(splits)) * lanes + lane) * VEC;
    const bool inside = column < columns;
    Sums all = {};
    if (inside) {
        x += dir * x_dir + column;
        const int each = ceil_div(rows, splits);
        const int begin = int(min(i64(rows), i64(split) * each)), end = min(rows, begin + each);
        NO_UNROLL for (int r = begin + group; r < end; r += AHEAD * groups) {
            Values v[AHEAD] = {};
            UNROLL for (int a = 0; a < AHEAD; ++a)
                if (r + a * groups < end) v[a] = Values::load(x + i64(r + a * groups) * columns);
            UNROLL for (int a = 0; a < AHEAD; ++a)
                UNROLL for (int i = 0; i < VEC; ++i) all[i] += to_acc(v[a][i]);
        }
    }

    UNROLL for (int i = 0; i < VEC; ++i) sums[i][threadIdx.x] = all[i];
    for (int half = groups / 2; half > 0; half /= 2) {
        __syncthreads();
        if (group < half) UNROLL for (int i = 0; i < VEC; ++i) {
            all[i] += sums[i][threadIdx.x + half * lanes];
            sums[i][threadIdx.x] = all[i];
        }
    }
    if (!inside || group) return;
    if (part) {
        part += (i64(dir) * splits + split) * columns + column;
        UNROLL for (int i = 0; i < VEC; ++i) part[i] = all[i];
        return;
    }
    const int gate = int(column) / hidden;
    const bool is_own = gate >= gates, has_own = kept > gates && gate == gates - 1;
    const i64 inputs = dir * dw_dir + column, recurrent = inputs + (is_own ? gates - 1 : gates) * hidden;
    if (!is_own) add(dw, dw_type, inputs, all);
    if (!has_own) add(dw, dw_type, recurrent, all);
}
