// The tile program on CUDA cores that matmul and convolution share: a block of 256 threads (a128x64: 128,
// a64x64: 64) multiplies an m x k by a k x n tile in shared memory into registers, and hands the sums out
// again in the order of memory.
//
//   t128x128 t128x64 t64x64 t32x32            tile shapes (axis TILE); the depth of a step follows from it
//   a128x256 a128x128 a128x64 a64x64          operands are copied to shared memory past the registers
//                                             (tile/simt_async.cuh); sm_80, types that are not converted
//   Simt<T, TILE>::Shared                     the buffers (two, or stages) of both operands, a[k][m] and
//                                             b[k][n], in the accumulator type
//   Simt::Static, Simt::shared(s, dynamic)    what a kernel declares for it, and where it is
//   Simt::multiply(shared, buffer, acc)       acc += a^T b
//   Simt::drain(shared, acc, along_m, emit)   emit(row, column, sum) once for every element; neighbouring
//                                             lanes get neighbouring rows (or columns), so that stores are
//                                             coalesced
//
// A thread holds FM x FN sums: blocks of WM x WN neighbours, GM * WM rows apart. A warp is 4 x 8 threads: a
// 16-byte read of a has 4 addresses and one of b 8 in a row. Shared memory serves eight lanes at a time, and
// two such eights at once where each pair of lanes shares an address: lanes 2i and 2i + 1 differ in m alone
// (measured on an H200: 1 % of the time of large tiles, 6 % of t64x64).
#pragma once
#include "lib/math.cuh"

namespace cydnn {

// A shape: FM x FN sums of a thread, stages of operands in shared memory, blocks that an SM should hold.
template <int M, int N, int FM, int FN, int Stages, int Blocks> struct SimtShape {
    static constexpr int m = M, n = N, fm = FM, fn = FN, stages = Stages, blocks = Blocks;
    static constexpr int threads = M / FM * (N / FN);
};

struct t128x128 : SimtShape<128, 128, 8, 8, 2, 2> { template <class Elem> static constexpr int k = 8; };
struct t128x64 : SimtShape<128, 64, 8, 4, 2, 2> {
    template <class Elem> static constexpr int k = sizeof(Elem) == 8 ? 8 : 16;
};
struct t64x64 : SimtShape<64, 64, 4, 4, 2, 2> { template <class Elem> static constexpr int k = 16; };
struct t32x32 : SimtShape<32, 32, 2, 2, 2, 2> { template <class Elem> static constexpr int k = 32; };
struct a128x256 : SimtShape<128, 256, 8, 16, 3, 1> { template <class Elem> static constexpr int k = 16; };
struct a128x128 : SimtShape<128, 128, 8, 8, 3, 2> { template <class Elem> static constexpr int k = 16; };
struct a128x64 : SimtShape<128, 64, 8, 8, 3, 4> { template <class Elem> static constexpr int k = 16; };
struct a64x64 : SimtShape<64, 64, 8, 8, 3, 8> { template <class Elem> static constexpr int k = 16; };

// Blocks an SM should hold, fewer where the sums of 8 bytes need all registers.
template <class Elem, class Shape> constexpr int simt_blocks() {
    return sizeof(Elem) == 8 && Shape::m * Shape::n > 8192 ? 1 : Shape::blocks;
}

// What a kernel declares as static shared memory: nothing where the buffers are dynamic.
template <class Shared, bool Dynamic> struct SimtStatic { using type = Shared; };
template <class Shared> struct SimtStatic<Shared, true> { struct type {}; };

template <class Elem, class Shape> struct Simt {
    using Sum = acc_t<Elem>;
    static constexpr int m = Shape::m, n = Shape::n, k = Shape::template k<Elem>;
    static constexpr int threads = Shape::threads;
    static constexpr int stages = Shape::stages;
    static constexpr bool is_async = stages > 2;
    static constexpr int FM = Shape::fm, FN = Shape::fn, GM = m / FM, GN = n / FN;     // G: threads
    static constexpr int WM = FM < 4 ? FM : 4, WN = FN < 4 ? FN : 4;
    // Keeps rows 16-byte aligned, spreads columns over banks.
    static constexpr int pitch_m = m + 4, pitch_n = n + 4;
    struct alignas(16) Shared {
        Sum a[stages][k][pitch_m];
        Sum b[stages][k][pitch_n];
    };
    using Static = typename SimtStatic<Shared, is_async>::type;
    static DEVICE Shared& shared(Static& fixed, void* dynamic) {
        if constexpr (is_async) return *static_cast<Shared*>(dynamic);
        else return fixed;
    }

    static DEVICE int thread_m() {
        return threadIdx.x / (4 * GN) * 4 + threadIdx.x % 32 / 16 * 2 + threadIdx.x % 2;
    }
    static DEVICE int thread_n() { return threadIdx.x / 32 % (GN / 8) * 8 + threadIdx.x % 16 / 2; }

    static DEVICE void clear(Sum (&acc)[FM][FN]) {
        UNROLL for (int i = 0; i < FM; ++i)
            UNROLL for (int j = 0; j < FN; ++j) acc[i][j] = 0;
    }

    static DEVICE void multiply(const Shared& s, int buffer, Sum (&acc)[FM][FN]) {
        const Sum* a = &s.a[buffer][0][thread_m() * WM];
        const Sum* b = &s.b[buffer][0][thread_n() * WN];
        UNROLL for (int step = 0; step < k; ++step) {
            Vec<Sum, WM> fa[FM / WM];
            Vec<Sum, WN> fb[FN / WN];
            UNROLL for (int i = 0; i < FM / WM; ++i)
                fa[i] = Vec<Sum, WM>::load(a + step * pitch_m + i * GM * WM);
            UNROLL for (int j = 0; j < FN / WN; ++j)
                fb[j] = Vec<Sum, WN>::load(b + step * pitch_n + j * GN * WN);
            UNROLL for (int i = 0; i < FM; ++i)
                UNROLL for (int j = 0; j < FN; ++j) acc[i][j] += fa[i / WM][i % WM] * fb[j / WN][j % WN];
        }
    }

    // One row of every thread, or one column where lanes run along m, at a time goes through shared memory,
    // which is free to use. Neither loop is unrolled: one emit, and one mark. Chunk c holds every WM-th row
    // (or column) from `outer` on, of one of the FM / WM blocks.
    template <class Emit>
    static DEVICE void drain(Shared& s, const Sum (&acc)[FM][FN], bool along_m, Emit emit) {
        static_assert(WM == WN && sizeof(Shared) >= 16 * ((m > n ? m : n) + 4) * sizeof(Sum),
                      "a chunk must fit");
        Sum* chunk = reinterpret_cast<Sum*>(&s);
        const int along = along_m ? m : n, pitch = along + 4, chunks = along_m ? FN : FM;
        const int lines = along_m ? GN : GM;
        NO_UNROLL for (int c = 0; c < chunks; ++c) {
            if (along_m) {
                Sum* to = chunk + thread_n() * pitch + thread_m() * WM;
                UNROLL for (int j = 0; j < FN; ++j)
                    UNROLL for (int h = 0; h < FM; h += WM) {
                        Vec<Sum, WM> v;
                        UNROLL for (int i = 0; i < WM; ++i) v[i] = acc[h + i][j];
                        if (j == c) v.store(to + h * GM);
                    }
            } else {
                Sum* to = chunk + thread_m() * pitch + thread_n() * WN;
                UNROLL for (int i = 0; i < FM; ++i)
                    UNROLL for (int h = 0; h < FN; h += WN) {
                        Vec<Sum, WN> v;
                        UNROLL for (int j = 0; j < WN; ++j) v[j] = acc[i][h + j];
                        if (i == c) v.store(to + h * GN);
                    }
            }
            __syncthreads();
            const int first = c / WM * lines * WM + c % WM;
            NO_UNROLL for (int e = threadIdx.x; e < lines * along; e += threads) {
                const int inner = e & (along - 1), line = unsigned(e) / (along_m ? m : n);
                const int outer = first + line * WM;
                emit(along_m ? inner : outer, along_m ? outer : inner, chunk[line * pitch + inner]);
            }
            __syncthreads();
        }
    }
};

}  // namespace cydnn
