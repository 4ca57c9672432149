/*@kernel
name    = "rnn_before_{T}_{VEC}"
about   = "h of the step before for every row, both directions: what recurrent weights were multiplied by."
T       = ["f32", "f16", "bf16", "f64"]
VEC     = [1, 8]
targets = ["sm_75"]
params  = ["const T* out", "const T* hx", "T* to", "const int* starts", "int steps", "int batch",
           "int hidden", "int64_t out_row", "int64_t hx_dir", "int64_t hx_row", "int64_t to_dir"]
block   = [256, 1, 1]
grid    = ["steps", "ceil_div(batch * hidden, 2048 * VEC)", "directions"]
extra   = ["directions"]
needs   = ["hidden % VEC == 0", "steps >= 1", "batch * hidden < 2147483648"]
problems = ["rnn_bwd_weights t3n5i8 cell=tanh hidden={8 if VEC == 8 else 5} bidirectional=True {T}",
            "rnn_bwd_weights t3n300i8 cell=tanh hidden={64 if VEC == 8 else 7} hx=none {T}",
            """rnn_bwd_weights t3n4i4 cell=gru hidden={16 if VEC == 8 else 3} batches=4,3,2 \
               bidirectional=True {T}"""]
@*/
// Block (t, part, direction): a share of the rows of one time. A row's first step has its initial state.
#include "rnn/cell.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* out, const T* hx, T* to, const int* starts, int steps, int batch, int hidden, i64 out_row,
    i64 hx_dir, i64 hx_row, i64 to_dir) {
    using Values = Vec<T, VEC>;
    const int t = blockIdx.x, dir = blockIdx.z, before = dir ? t + 1 : t - 1, width = hidden / VEC;
    const Walk walk = {starts, steps, batch};
    const int rows = walk.rows(t), rows_before = walk.rows(before);
    const i64 first = walk.first(t), first_before = rows_before ? walk.first(before) : 0;
    const int begin = blockIdx.y * 2048, end = min(begin + 2048, rows * width);
    out += dir * hidden, to += dir * to_dir;
    NO_UNROLL for (int i = begin + threadIdx.x; i < end; i += 256) {
        const int b = i / width, j = i % width * VEC;
        Values v = {};
        if (b < rows_before) v = Values::load(out + (first_before + b) * out_row + j);
        else if (hx) v = Values::load(hx + dir * hx_dir + b * hx_row + j);
        v.store(to + (first + b) * hidden + j);
    }
}
