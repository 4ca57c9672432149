/*@kernel
name   = "softmax_bwd_generic_{T}_{WIDTH}"
about  = "Softmax gradient of any rank and strides: {WIDTH} lanes a row, two reads."
T      = ["f64", "f32", "f16", "bf16"]
WIDTH  = [32, 256]
params = ["const T* y", "const T* dy", "T* dx", "int rows", "int cols", "Array<FastDiv, 8> row_dims",
          "Array<int64_t, 8> y_rows", "Array<int64_t, 8> dy_rows", "Array<int64_t, 8> dx_rows",
          "Array<FastDiv, 8> col_dims", "Array<int64_t, 8> y_cols", "Array<int64_t, 8> dy_cols",
          "Array<int64_t, 8> dx_cols", "int is_log", "Acc_T alpha", "Acc_T beta"]
block  = ["WIDTH", "256 // WIDTH", 1]
grid   = ["ceil_div(rows, 256 // WIDTH)", 1, 1]
needs  = ["1 <= rows < 2**30", "1 <= cols < 2**30"]
problems = ["""softmax_bwd \
               y=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@40000,13000,3900,1900,900,400,100,11 \
               dy=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@36000,12000,3600,1700,800,310,70,9 \
               dx=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@32768,11264,3584,1600,704,288,64,1 \
               mode=instance""",
            """softmax_bwd \
               y=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@40000,13000,3900,1900,900,400,100,11 \
               dy=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@36000,12000,3600,1700,800,310,70,9 \
               dx=2x2x3x2x2x2x2x{3 if WIDTH == 32 else 7}:{T}@32768,11264,3584,1600,704,288,64,1 \
               mode=instance algorithm=log""",
            """softmax_bwd y=2x5x2x2x2x2x2x2:{T}@9400,900,450,200,90,40,13,3 \
               dy=2x5x2x2x2x2x2x2:{T}@7000,800,380,170,75,33,14,5 \
               dx=2x5x2x2x2x2x2x2:{T}@9000,1000,486,243,81,27,9,2"""]
@*/
// The dims that are kept make the row's number, the others the column's. A lane alone reads and writes its
// columns, so dx may be dy.
#include "reduction/space.cuh"
#include "row.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
        const T* y, const T* dy, T* dx, int rows, int cols, Array<FastDiv, 8> row_dims, Array<i64, 8> y_rows,
        Array<i64, 8> dy_rows, Array<i64, 8> dx_rows, Array<FastDiv, 8> col_dims, Array<i64, 8> y_cols,
        Array<i64, 8> dy_cols, Array<i64, 8> dx_cols, int is_log, Acc_T alpha, Acc_T beta) {
    const int lane = threadIdx.x, row = WIDTH == 256 ? blockIdx.x : blockIdx.x * (256 / WIDTH) + threadIdx.y;
    if (WIDTH < 256 && row >= rows) return;        // a whole warp, or nobody
    y += offset_of<7>(row, row_dims, y_rows), dy += offset_of<7>(row, row_dims, dy_rows),
    dx += offset_of<7>(row, row_dims, dx_rows);
    const auto y_at = [&](int c) { return to_acc(y[offset_of<7>(c, col_dims, y_cols)]); };
    const auto dy_at = [&](int c) { return to_acc(dy[offset_of<7>(c, col_dims, dy_cols)]); };
    Acc_T sum = 0;
    NO_UNROLL for (int c = lane; c < cols; c += WIDTH)
        sum += GradientOf<T>::share(is_log ? Acc_T(0) : y_at(c), dy_at(c), is_log);
    if constexpr (WIDTH == 32) sum = warp_sum(sum);
    else sum = block_sum<WIDTH>(sum);
    const GradientOf<T> of{sum, alpha, bool(is_log)};
    NO_UNROLL for (int c = lane; c < cols; c += WIDTH)
        put_one(dx + offset_of<7>(c, col_dims, dx_cols), of(y_at(c), dy_at(c)), beta);
}
