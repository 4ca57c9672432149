// The tile program on CUDA cores that matmul and convolution share: 256 threads multiply an m x k by a k x n
// tile in shared memory into registers, and hand the sums out again in the order of memory.
//
//   t128x128 t128x64 t64x64 t32x32            tile shapes (axis TILE); the depth of a step follows from it
//   Simt<T, TILE>::Shared                     two buffers of both operands, a[k][m] and b[k][n], in the
//                                             accumulator type
//   Simt::multiply(shared, buffer, acc)       acc += a^T b
//   Simt::drain(shared, acc, along_m, emit)   emit(row, column, sum) once for every element; neighbouring
//                                             lanes get neighbouring rows (or columns), so that stores are
//                                             coalesced
//
// A thread holds FM x FN sums: blocks of WM x WN neighbours, 16 * WM rows apart. A warp is 4 x 8 threads, so
// a 16-byte read of a has 4 addresses and one of b 8 in a row: broadcasts without bank conflicts.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

struct t128x128 { static constexpr int m = 128, n = 128; template <class Elem> static constexpr int k = 8; };
struct t128x64 {
    static constexpr int m = 128, n = 64;
    template <class Elem> static constexpr int k = sizeof(Elem) == 8 ? 8 : 16;
};
struct t64x64 { static constexpr int m = 64, n = 64; template <class Elem> static constexpr int k = 16; };
struct t32x32 { static constexpr int m = 32, n = 32; template <class Elem> static constexpr int k = 32; };

// Blocks an SM should hold: two, except where 128 x 128 doubles need all registers.
template <class Elem, class Shape> constexpr int simt_blocks() {
    return sizeof(Elem) == 8 && Shape::m * Shape::n > 8192 ? 1 : 2;
}

template <class Elem, class Shape> struct Simt {
    using Sum = acc_t<Elem>;
    static constexpr int m = Shape::m, n = Shape::n, k = Shape::template k<Elem>, threads = 256;
    static constexpr int FM = m / 16, FN = n / 16, WM = FM < 4 ? FM : 4, WN = FN < 4 ? FN : 4;
    // Keeps rows 16-byte aligned, spreads columns over banks.
    static constexpr int pitch_m = m + 4, pitch_n = n + 4;
    struct alignas(16) Shared {
        Sum a[2][k][pitch_m];
        Sum b[2][k][pitch_n];
    };

    static DEVICE int thread_m() { return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8; }
    static DEVICE int thread_n() { return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8; }

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
                fa[i] = Vec<Sum, WM>::load(a + step * pitch_m + i * 16 * WM);
            UNROLL for (int j = 0; j < FN / WN; ++j)
                fb[j] = Vec<Sum, WN>::load(b + step * pitch_n + j * 16 * WN);
            UNROLL for (int i = 0; i < FM; ++i)
                UNROLL for (int j = 0; j < FN; ++j) acc[i][j] += fa[i / WM][i % WM] * fb[j / WN][j % WN];
        }
    }

    // Sixteen rows, or columns where lanes run along m, at a time go through shared memory, which is free to
    // use. Neither loop is unrolled: one emit, and one mark. Chunk c holds every WM-th row (or column) from
    // `outer` on, of one of the FM / WM blocks.
    template <class Emit>
    static DEVICE void drain(Shared& s, const Sum (&acc)[FM][FN], bool along_m, Emit emit) {
        static_assert(WM == WN && sizeof(Shared) >= 16 * (m + 4) * sizeof(Sum) && m >= n, "a chunk must fit");
        Sum* chunk = reinterpret_cast<Sum*>(&s);
        const int along = along_m ? m : n, pitch = along + 4, chunks = along_m ? FN : FM;
        NO_UNROLL for (int c = 0; c < chunks; ++c) {
            if (along_m) {
                Sum* to = chunk + thread_n() * pitch + thread_m() * WM;
                UNROLL for (int j = 0; j < FN; ++j)
                    UNROLL for (int h = 0; h < FM; h += WM) {
                        Vec<Sum, WM> v;
                        UNROLL for (int i = 0; i < WM; ++i) v[i] = acc[h + i][j];
                        if (j == c) v.store(to + h * 16);
                    }
            } else {
                Sum* to = chunk + thread_m() * pitch + thread_n() * WN;
                UNROLL for (int i = 0; i < FM; ++i)
                    UNROLL for (int h = 0; h < FN; h += WN) {
                        Vec<Sum, WN> v;
                        UNROLL for (int j = 0; j < WN; ++j) v[j] = acc[i][h + j];
                        if (i == c) v.store(to + h * 16);
                    }
            }
            __syncthreads();
            const int first = c / WM * 16 * WM + c % WM;
            NO_UNROLL for (int e = threadIdx.x; e < 16 * along; e += threads) {
                const int inner = e & (along - 1), line = unsigned(e) / (along_m ? m : n);
                const int outer = first + line * WM;
                emit(along_m ? inner : outer, along_m ? outer : inner, chunk[line * pitch + inner]);
            }
            __syncthreads();
        }
    }
};

}  // namespace cydnn
