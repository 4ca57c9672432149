/*@kernel
name   = "conv_wgrad_simt_sum_{T}"
about  = "Adds the splits of a filter gradient in their order and blends the sum into dw."
T      = ["f32", "f64", "f16", "bf16", "i32"]
params = ["const Acc_T* parts", "T* dw", "Acc_T alpha", "Acc_T beta", "int count", "int splits",
          "int channel_inner", "FastDiv rows", "Array<FastDiv, 3> digit", "int64_t dw_k", "int64_t dw_c",
          "Array<int64_t, 3> dw_s", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 256)", 1, 1]
needs  = ["count >= 1", "splits >= 1"]
marks  = ["epilogue"]
problems = ["conv_wgrad n2c5h5w6 k7r3s2 pad1 {T}{' acc=i32' if T == i32 else ''}",
            "conv_wgrad n2c3h19w19 k4r2s2 {T} nhwc{' acc=i32' if T == i32 else ''}",
            """conv_wgrad n2c3d4h6w7 k5t2r3s2 pre_pad=1,0,2 post_pad=0,2,1 mode=convolution {T}\
{' acc=i32' if T == i32 else ''}"""]
@*/
// A thread sums one element of parts[split][filter][row]; four loads are in flight, the order of
// the sum is that of the splits.
#include "conv/gather_simt.cuh"
#include "lib/epilogue.cuh"

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const acc_t<T>* parts, T* dw, acc_t<T> alpha, acc_t<T> beta, int count, int splits, int channel_inner,
    FastDiv rows, Array<FastDiv, 3> digit, i64 dw_k, i64 dw_c, Array<i64, 3> dw_s, Fuse fuse) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    if (i >= unsigned(count)) return;
    __builtin_assume(splits > 0);
    acc_t<T> sum = 0;
    const acc_t<T>* p = parts + i;
    _Pragma("unroll 4") for (int s = 0; s < splits; ++s) sum += p[i64(s) * count];

    unsigned row;
    const unsigned filter = rows.divmod(i, row);
    int c, t[3];
    channel_and_tap(row, digit[0], digit[1], digit[2], channel_inner, c, t);
    const i64 off = filter * dw_k + c * dw_c + t[0] * dw_s[0] + t[1] * dw_s[1] + t[2] * dw_s[2];
    acc_t<T> v[1] = {blend(alpha, sum, beta, dw + off)};
    fuse_epilogue(v, off, int(filter), int(row));
    dw[off] = from_acc<T>(v[0]);
}
