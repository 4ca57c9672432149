/*@kernel
name    = "transform_tma_{T}"
about   = "y = alpha * x + beta * y of one type, both with gaps, in boxes that the copy engine (TMA) moves."
T       = ["f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64"]
M       = ["f64", "f32"]
targets = ["sm_90"]
when    = ["(M == f64) == (T in (f64, i32, i64))"]
params  = ["const CUtensorMap x", "const CUtensorMap y", "Array<FastDiv, 4> tiles", "Array<int, 5> box",
           "int box_bytes", "M alpha", "M beta"]
extra   = ["tiles_4"]
block   = [256, 1, 1]
grid    = ["tiles[0] * tiles[1] * tiles[2] * tiles[3] * tiles_4", 1, 1]
needs   = ["box_bytes == box[0] * box[1] * box[2] * box[3] * box[4] * sizeof(T)", "box_bytes <= 16384",
           "box[0] * sizeof(T) % 16 == 0"]
problems = ["transform x=5x7x32:{T}@512,64,1 y=5x7x32:{T}@368,48,1",
            "transform x=3x288:{T}@320,1 y=3x288:{T}@304,1",
            "transform x=2x3x4x3x16:{T}@8192,2560,608,192,1 y=2x3x4x3x16:{T}@4096,1216,256,64,1",
            "transform x=16x2x3x130:{T}@1,13504,4416,32 y=16x2x3x130:{T}@1,14336,4608,32",
            """transform x=128x{256 // sizeof(T)}:{T}@{320 // sizeof(T)},1 \
               y=128x{256 // sizeof(T)}:{T}@{288 // sizeof(T)},1"""]
@*/
// x and y are contiguous along the same dim; the maps have five dims, those of size 1 last. A block moves one
// box: x's (and where beta is not 0, y's) comes in, the threads scale it in place, 16 bytes at a time, it
// goes out. What lies outside the tensors is 0 when it comes in and dropped when it goes out, so no thread
// looks for tails; rows are multiples of 16 bytes, as the hardware writes no less. With alpha 1 and beta 0
// the box goes out as it came.
#include "lib/hopper.cuh"

constexpr int BYTES = 16384, THREADS = 256, COUNT = 16 / sizeof(T);

// Whole numbers of 32 bits and more are computed in double: acc_t is float for i64.
DEVICE M to_math(T v) {
    if constexpr (sizeof(M) == 8) return M(v);
    else return to_acc(v);
}

DEVICE void scale(T* x, const T* y, bool reads_y, M alpha, M beta) {
    const auto from = Vec<T, COUNT>::load(x);
    M v[COUNT];
    UNROLL for (int i = 0; i < COUNT; ++i) v[i] = alpha * to_math(from[i]);
    if (reads_y) {
        const auto old = Vec<T, COUNT>::load(y);
        UNROLL for (int i = 0; i < COUNT; ++i) v[i] += beta * to_math(old[i]);
    }
    Vec<T, COUNT>::of(v).store(x);
}

extern "C" __global__ __launch_bounds__(THREADS) void KERNEL(
    const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, Array<FastDiv, 4> tiles,
    Array<int, 5> box, int box_bytes, M alpha, M beta) {
    __shared__ alignas(128) unsigned char x_box[BYTES], y_box[BYTES];
    __shared__ uint64_t arrived;
    const bool reads_y = beta != 0;
    int at[5];
    unsigned rest = blockIdx.x, digit;
    UNROLL for (int d = 0; d < 4; ++d) rest = tiles[d].divmod(rest, digit), at[d] = int(digit) * box[d];
    at[4] = int(rest) * box[4];

    if (threadIdx.x == 0) {
        barrier_init(&arrived, 1);
        fence_async();
        barrier_expect(&arrived, reads_y ? 2 * box_bytes : box_bytes);
        tensor_load(x_box, x, at, &arrived);
        if (reads_y) tensor_load(y_box, y, at, &arrived);
    }
    __syncthreads();                                         // the barrier is there
    barrier_wait(&arrived, 0);

    if (alpha != 1 || reads_y) {
        for (int i = threadIdx.x * 16; i < box_bytes; i += THREADS * 16)
            scale(reinterpret_cast<T*>(x_box + i), reinterpret_cast<T*>(y_box + i), reads_y, alpha, beta);
        fence_async();
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        tensor_store(y, at, x_box);
        store_commit();
        store_wait_read<0>();                                // shared memory goes with the block
    }
}
