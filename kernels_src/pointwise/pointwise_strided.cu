/*@kernel
name   = "pointwise_strided_{T}"
about  = "y = alpha * R + beta * y with a spliced R, on any strides. Four elements a thread."
T      = ["f64", "f32", "f16", "bf16", "i32", "i8", "u8"]
V      = ["f32", "f64"]
when   = ["V == (f64 if T in (f64, i32) else f32)"]
params = ["T* y", "int count", "int rank", "Array<FastDiv, 7> sizes", "Array<int64_t, 5> starts",
          "Array<int64_t, 8> strides", "Array<int64_t, 8> strides0", "Array<int64_t, 8> strides1", "Array<int64_t, 8> strides2", "Array<int64_t, 8> strides3",
          "V alpha", "V beta", "Fuse fuse"]
block  = [256, 1, 1]
grid   = ["ceil_div(count, 1024)", 1, 1]
needs  = ["count >= 1", "rank >= 1", "rank <= 8"]
marks  = ["epilogue"]
problems = ["pointwise x=3x5x11:{T}@55,1,5 b=1x5x1:{T} y=3x5x11:{T}@100,13,1 mode=add",
            "pointwise x=2x2x3x2x2x2x2x13:{T}@32768,11264,3584,1600,704,288,64,1 b=2x2x3x2x2x2x2x13:{T}@1,2,4,12,24,48,96,192 y=2x2x3x2x2x2x2x13:{T}@1,3,7,22,45,91,183,400 mode=add",
            "pointwise x=2x3x1100:{T}@10000,1,3 b=1x3x1:{T} y=2x3x1100:{T}@3500,1130,1 mode=add"]
@*/
// Dims are collapsed and innermost first by y's strides, so neighbouring threads write neighbours. Inputs are read by spliced
// code: at `off` those laid out like y, at `in0` to `in3` those with strides0 to strides3 (what is not used is dead code). starts: where
// the first element lies in each. Larger tensors take several launches. V holds every i32 exactly.
#include "lib/epilogue.cuh"
#include "pointwise/unravel.cuh"

DEVICE void mark(float& v, const i64 (&at)[5]) {
    asm volatile("// @fuse.epilogue v=%0 off=%1 in0=%2 in1=%3 in2=%4 in3=%5;"
                 : "+f"(v) : "l"(at[0]), "l"(at[1]), "l"(at[2]), "l"(at[3]), "l"(at[4]));
}
DEVICE void mark(double& v, const i64 (&at)[5]) {
    asm volatile("// @fuse.epilogue v=%0 off=%1 in0=%2 in1=%3 in2=%4 in3=%5;"
                 : "+d"(v) : "l"(at[0]), "l"(at[1]), "l"(at[2]), "l"(at[3]), "l"(at[4]));
}

extern "C" __global__ __launch_bounds__(256) void KERNEL(
    T* y, int count, int rank, const __grid_constant__ Array<FastDiv, 7> sizes, const __grid_constant__ Array<int64_t, 5> starts,
    const __grid_constant__ Array<int64_t, 8> strides, const __grid_constant__ Array<int64_t, 8> strides0,
    const __grid_constant__ Array<int64_t, 8> strides1, const __grid_constant__ Array<int64_t, 8> strides2,
    const __grid_constant__ Array<int64_t, 8> strides3, V alpha, V beta, Fuse fuse) {
    const Array<i64, 8>* const all[5] = {&strides, &strides0, &strides1, &strides2, &strides3};
    const auto elements = [&](auto& i) {
        constexpr int Count = sizeof(i) / sizeof(i[0]);
        i64 at[Count][5];
        V v[Count] = {};
        unravel(i, rank, sizes, starts, all, at);
        UNROLL for (int u = 0; u < Count; ++u) mark(v[u], at[u]);
        UNROLL for (int u = 0; u < Count; ++u) {
            v[u] *= alpha;
            if (beta != 0) v[u] += beta * V(to_acc(y[at[u][0]]));
            y[at[u][0]] = from_acc<T>(v[u]);
        }
    };
    const unsigned first = blockIdx.x * 1024 + threadIdx.x;
    if ((blockIdx.x + 1) * 1024 <= unsigned(count)) {                    // a full block: four elements' loads are under way at once
        unsigned four[4] = {first, first + 256, first + 512, first + 768};
        elements(four);
    } else {
        NO_UNROLL for (unsigned i = first; i < unsigned(count); i += 256) {
            unsigned one[1] = {i};
            elements(one);
        }
    }
}
