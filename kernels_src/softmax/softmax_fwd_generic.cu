/*@kernel
name   = "softmax_fwd_generic_{T}_{WIDTH}"
about  = "Softmax of any rank and strides: {WIDTH} lanes a row, three reads."
T      = ["f64", "f32", "f16", "bf16"]
WIDTH  = [32, 256]
params = ["const T* x", "T* y", "int rows", "int cols", "Array<FastDiv, 8> row_dims", "Array<int64_t, 8> x_rows", "Array<int64_t, 8> y_rows", "Array<FastDiv, 8> col_dims", "Array<int64_t, 8> x_cols", "Array<int64_t, 8> y_cols", "int is_log", "Acc_T alpha", "Acc_T beta"]
block  = [256, 1, 1]
grid   = ["ceil_div(rows, 256 // WIDTH)", 1, 1]
needs  = ["1 <= rows < 2**30", "1 <= cols < 2**30"]
problems = ["softmax_fwd 3x{'37' if WIDTH == 32 else '1033'} algorithm=log {T}",
            "softmax_fwd x=2x2x3x2x2x2x2x{'4' if WIDTH == 32 else '16'}:{T}@32768,11264,3584,1600,704,288,64,1 y=2x2x3x2x2x2x2x{'4' if WIDTH == 32 else '16'}:{T}@32768,11264,3584,1600,704,288,64,1 mode=instance",
            "softmax_fwd x=2x{'4x2x2x2x2x2x2' if WIDTH == 32 else '1033x2x2'}:{T}@{'40000,5000,1000,486,243,81,27,9' if WIDTH == 32 else '10400,10,5,2'} y=2x{'4x2x2x2x2x2x2' if WIDTH == 32 else '1033x2x2'}:{T}@{'40000,5000,1000,486,243,81,27,9' if WIDTH == 32 else '10400,10,5,2'}",
            "softmax_fwd x=2x2x3x2x2x2x2x{'4' if WIDTH == 32 else '16'}:{T}@32768,11264,3584,1600,704,288,64,1 y=2x2x3x2x2x2x2x{'4' if WIDTH == 32 else '16'}:{T}@32768,11264,3584,1600,704,288,64,1 mode=instance algorithm=log",
            "softmax_fwd x=2x{'4x2x2x2x2x2x2' if WIDTH == 32 else '1033x2x2'}:{T}@{'40000,5000,1000,486,243,81,27,9' if WIDTH == 32 else '10400,10,5,2'} y=2x{'4x2x2x2x2x2x2' if WIDTH == 32 else '1033x2x2'}:{T}@{'40000,5000,1000,486,243,81,27,9' if WIDTH == 32 else '10400,10,5,2'} algorithm=log"]
@*/
// The dims that are kept make the row's number, the others the column's. A lane reads its columns for the maximum, for
// the sum and for the result; only it writes them, so y may be x.
#include "reduction/space.cuh"
#include "row.cuh"

template <class Value, class Op> DEVICE Value row_reduce(Value v, Op op) {
    if constexpr (WIDTH == 32) return warp_reduce(v, op);
    else return block_reduce<WIDTH>(v, op);
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
        const T* x, T* y, int rows, int cols, Array<FastDiv, 8> row_dims, Array<i64, 8> x_rows, Array<i64, 8> y_rows,
        Array<FastDiv, 8> col_dims, Array<i64, 8> x_cols, Array<i64, 8> y_cols, int is_log, Acc_T alpha, Acc_T beta) {
    const int lane = threadIdx.x % WIDTH, row = blockIdx.x * (256 / WIDTH) + threadIdx.x / WIDTH;
    if (row >= rows) return;                       // a whole warp, or nobody
    x += offset_of(row, row_dims, x_rows), y += offset_of(row, row_dims, y_rows);
    MaxSum<Acc_T> whole = nothing<Acc_T>();
    for (int c = lane; c < cols; c += WIDTH) whole.max = max_nan(whole.max, to_acc(x[offset_of(c, col_dims, x_cols)]));
    whole.max = row_reduce(whole.max, Max{});
    const Acc_T base = base_of(whole.max);
    for (int c = lane; c < cols; c += WIDTH) whole.sum = add_rn(whole.sum, row_exp<T>(to_acc(x[offset_of(c, col_dims, x_cols)]) - base));
    whole.sum = row_reduce(whole.sum, Sum{});
    const SoftmaxOf<T> of(whole, alpha, is_log);
    for (int c = lane; c < cols; c += WIDTH)
        put_one(y + offset_of(c, col_dims, y_cols), of(to_acc(x[offset_of(c, col_dims, x_cols)])), beta);
}
