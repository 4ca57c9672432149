/*@kernel
name   = "spatial_grid_bwd_split_{T}"
about  = "Sums of dgrid times (x, y, 1) over a part of the points of an image: a block a part."
T      = ["f64", "f32", "f16", "bf16"]
params = ["const T* dgrid", "T* dtheta", "Acc_T* part", "int images", "int points", "int splits", "FastDiv w",
          "int h"]
block  = [256, 1, 1]
grid   = ["splits", "images", 1]
needs  = ["1 <= images < 65536", "1 <= points < 2**31", "1 <= splits < 65536"]
problems = ["spatial_grid_bwd dgrid=3x17x13x2:{T}", "spatial_grid_bwd dgrid=2x1x5x2:{T}",
            "spatial_grid_bwd dgrid=3x300x1x2:{T}", "spatial_grid_bwd dgrid=2x1x1x2:{T}",
            "spatial_grid_bwd dgrid=1x71x83x2:{T}"]
@*/
// Points of a part: split, split + splits, … in steps of 256. Of a lone part the sums are the result.
#include "lib/reduce.cuh"
#include "points.cuh"

namespace cydnn {
template <class Value> struct Six {
    Value v[6];
};
struct AddSix {
    template <class Value> DEVICE Six<Value> operator()(Six<Value> a, const Six<Value>& b) const {
        UNROLL for (int k = 0; k < 6; ++k) a.v[k] += b.v[k];
        return a;
    }
};
}  // namespace cydnn

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    const T* dgrid, T* dtheta, Acc_T* part, int images, int points, int splits, FastDiv w, int h) {
    const int n = blockIdx.y;
    dgrid += i64(n) * points * 2;
    Six<Acc_T> sum = {};
    NO_UNROLL for (i64 p = i64(blockIdx.x) * 256 + threadIdx.x; p < points; p += i64(splits) * 256) {
        unsigned j;
        const unsigned i = w.divmod(unsigned(p), j);
        const Acc_T at[3] = {w.by > 1 ? Acc_T(2 * j) / Acc_T(w.by - 1) - 1 : Acc_T(-1),
                             h > 1 ? Acc_T(2 * i) / Acc_T(h - 1) - 1 : Acc_T(-1), Acc_T(1)};
        const Acc_T d[2] = {to_acc(dgrid[2 * p]), to_acc(dgrid[2 * p + 1])};
        UNROLL for (int k = 0; k < 6; ++k) sum.v[k] += d[k / 3] * at[k % 3];
    }
    sum = block_reduce<256>(sum, AddSix{});
    if (threadIdx.x >= 6) return;
    Acc_T mine = 0;
    UNROLL for (int k = 0; k < 6; ++k) mine = threadIdx.x == k ? sum.v[k] : mine;
    if (splits == 1) dtheta[n * 6 + threadIdx.x] = from_acc<T>(mine);
    else part[(i64(n) * splits + blockIdx.x) * 6 + threadIdx.x] = mine;
}
