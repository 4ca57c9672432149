/*@kernel
name   = "softmax_fwd_generic_{T}_{WIDTH}"
about  = "Softmax of any rank and strides: {WIDTH} lanes a row, three reads."
T      = ["f64", "f32", "f16", "bf16"]
WIDTH  = [32, 256]
params = ["const T* x", "T* y", "int rows", "int cols", "Array<FastDiv, 8> row_dims",
          "Array<int64_t, 8> x_rows", "Array<int64_t, 8> y_rows", "Array<FastDiv, 8> col_dims",
          "Array<int64_t, 8> x_cols", "Array<int64_t, 8> y_cols", "int is_log", "Acc_T alpha", "Acc_T beta"]
block  = ["WIDTH", "256 // WIDTH", 1]
grid   = ["ceil_div(rows, 256 // WIDTH)", 1, 1]
needs  = ["1 <= rows < 2**30", "1 <= cols < 2**30"]
problems = ["""softmax_fwd x=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@40000,13000,3900,1900,900,400,100,11 \
               mode=instance""",
            """softmax_fwd x=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@32768,11264,3584,1600,704,288,64,1 \
               y=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@40000,13000,3900,1900,900,400,100,11 \
               mode=instance algorithm=log""",
            """softmax_fwd x=2x5x2x2x2x2x2x2:{T}@9000,1000,486,243,81,27,9,2 \
               y=2x5x2x2x2x2x2x2:{T}@9400,900,450,200,90,40,13,3"""]
@*/
// The dims that are kept make the row's number, the others the column's. A lane reads its columns for the
// maximum, for the sum and for the result; only it writes them, so y may be x.
#include "reduction/space.cuh"
#include "row.cuh"

template <class Value, class Op> DEVICE Value row_reduce(Value v, Op op) {
    if constexpr (WIDTH == 32) return warp_reduce(v, op);
    else return block_reduce<WIDTH>(v, op);
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
        const T* x, T* y, int rows, int cols, Array<FastDiv, 8> row_dims, Array<i64, 8> x_rows,
        Array<i64, 8> y_rows, Array<FastDiv, 8> col_dims, Array<i64, 8> x_cols, Array<i64, 8> y_cols,
        int is_log, Acc_T alpha, Acc_T beta) {
    const int lane = threadIdx.x, row = WIDTH == 256 ? blockIdx.x : blockIdx.x * (256 / WIDTH) + threadIdx.y;
    if (WIDTH < 256 && row >= rows) return;        // a whole warp, or nobody
    x += offset_of<7>(row, row_dims, x_rows), y += offset_of<7>(row, row_dims, y_rows);
    MaxSum<Acc_T> whole = nothing<Acc_T>();
    NO_UNROLL for (int c = lane; c < cols; c += WIDTH)
        whole.max = max_nan(whole.max, to_acc(x[offset_of<7>(c, col_dims, x_cols)]));
    whole.max = row_reduce(whole.max, Max{});
    const Acc_T base = base_of(whole.max);
    NO_UNROLL for (int c = lane; c < cols; c += WIDTH)
        whole.sum = add_rn(whole.sum, raised_exp<T>(to_acc(x[offset_of<7>(c, col_dims, x_cols)]) - base));
    whole.sum = row_reduce(whole.sum, Sum{});
    const SoftmaxOf<T> of(whole, alpha, is_log);
    NO_UNROLL for (int c = lane; c < cols; c += WIDTH)
        put_one(y + offset_of<7>(c, col_dims, y_cols), of(to_acc(x[offset_of<7>(c, col_dims, x_cols)])),
                beta);
}
