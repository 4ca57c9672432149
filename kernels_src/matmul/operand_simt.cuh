// One operand of a matmul on CUDA cores on its way from memory to its tile in shared memory (tile[k][row]).
//
//   form            a thread holds                              memory
//   ALONG_ROWS      1 row, E depths; lanes along rows           any strides
//   ALONG_DEPTH     1 row, E depths; lanes along the depth      any strides
//   ROW_VECTORS     V rows, E / V depths                        rows contiguous, aligned; row count and other
//                                                               strides multiples of 4
//   DEPTH_VECTORS   1 row, E depths in vectors of V             depths contiguous, aligned; depth and other
//                                                               strides multiples of 4
#pragma once
#include "lib/types.cuh"
#include "tile/simt_async.cuh"

namespace cydnn {

enum OperandForm { ALONG_ROWS, ALONG_DEPTH, ROW_VECTORS, DEPTH_VECTORS };

template <class Elem, int Rows, int K> struct Operand {
    static constexpr int E = Rows * K / 256, V = E < 4 ? E : 4;
    Elem held[E];
    const Elem* p;                                       // element (row, k0) of the step that comes next
    i64 k_step;
    int form, row, k0;
    bool is_row;

    DEVICE Operand(int form, const Elem* base, i64 row_step, i64 k_step, int row0, int rows, int begin)
        : k_step(k_step), form(form) {
        const unsigned t = threadIdx.x;
        if (form == ALONG_ROWS) row = t % Rows, k0 = t / Rows * E;
        else if (form == ROW_VECTORS) row = t % (Rows / V) * V, k0 = t / (Rows / V) * (E / V);
        else row = t / (K / E), k0 = t % (K / E) * E;
        is_row = row < rows - row0;
        p = base + (i64(row0) + row) * row_step + (i64(begin) + k0) * k_step;
    }
    // `left`: depths from the step's first on.
    DEVICE void load(int left) {
        UNROLL for (int e = 0; e < E; ++e) held[e] = Elem(0.f);
        const int mine = is_row ? left - k0 : 0;
        if (form == ROW_VECTORS) {
            UNROLL for (int i = 0; i < E / V; ++i) if (i < mine) put(i * V, p + i * k_step);
        } else if (form == DEPTH_VECTORS) {
            UNROLL for (int i = 0; i < E; i += V) if (i < mine) put(i, p + i);
        } else {
            UNROLL for (int e = 0; e < E; ++e) if (e < mine) held[e] = p[e * k_step];
        }
        p += K * k_step;
    }
    DEVICE void put(int at, const Elem* from) {
        const auto v = Vec<Elem, V>::load_nc(from);
        UNROLL for (int i = 0; i < V; ++i) held[at + i] = v[i];
    }
    template <class Sum, int Pitch> DEVICE void store(Sum (&tile)[K][Pitch]) const {
        if (form == ROW_VECTORS) {
            UNROLL for (int i = 0; i < E / V; ++i) {
                Vec<Sum, V> v;
                UNROLL for (int j = 0; j < V; ++j) v[j] = to_acc(held[i * V + j]);
                v.store(&tile[k0 + i][row]);
            }
        } else {
            UNROLL for (int e = 0; e < E; ++e) tile[k0 + e][row] = to_acc(held[e]);
        }
    }
};

// The same on its way past the registers, by copies of a step at a time: of both forms along the depth by
// elements, which leave their tile across.
template <class S, class Elem, int Rows> struct AsyncOperand {
    static constexpr int K = S::k;
    const Elem* p;                                       // element (row, depth) of the step that comes next
    i64 row_step, k_step;
    int form, row, depth, rows;                          // `rows`: from `row` on

    DEVICE AsyncOperand(int form, const Elem* base, i64 row_step, i64 k_step, int row0, int rows, int begin)
        : row_step(row_step), k_step(k_step), form(form) {
        if (form == ALONG_ROWS) place<ROWS>();
        else if (form == ROW_VECTORS) place<ROW_QUARTETS>();
        else place<DEPTHS>();
        this->rows = rows - row0 - row;
        p = base + (i64(row0) + row) * row_step + (i64(begin) + depth) * k_step;
    }
    template <AsyncLanes Lanes> DEVICE void place() {
        using Place = AsyncPlace<S, Rows, Lanes>;
        row = Place::row(threadIdx.x), depth = Place::depth(threadIdx.x);
    }
    // `left`: depths from the step's first on.
    template <int Pitch> DEVICE void copy(Elem (&tile)[K][Pitch], int left) {
        if (form == ALONG_ROWS) issue<ROWS>(tile, left - depth);
        else if (form == ROW_VECTORS) issue<ROW_QUARTETS>(tile, left - depth);
        else issue<DEPTHS>(tile, left - depth);
        p += K * k_step;
    }
    template <AsyncLanes Lanes, int Pitch> DEVICE void issue(Elem (&tile)[K][Pitch], int left) {
        using Place = AsyncPlace<S, Rows, Lanes>;
        const unsigned to = shared_address(&tile[depth][row]);
        const Elem* line = p;
        UNROLL for (int i = 0; i < Place::rows_count; ++i) {
            const int depths = i * Place::rows_by < rows ? left : 0;
            const Elem* from = line;
            UNROLL for (int e = 0; e < Place::count; ++e) {
                cp_async_if<Place::wide * sizeof(Elem)>(
                    e * Place::by < depths, to + (e * Place::by * Pitch + i * Place::rows_by) * sizeof(Elem),
                    from);
                from += Place::by * k_step;
            }
            line += Place::rows_by * row_step;
        }
    }
};

// A matrix as a product reads it: its form, first element, steps, and the tile's first row of `rows`.
template <class Elem> struct Matrix {
    int form;
    const Elem* base;
    i64 row_step, k_step;
    int row0, rows;
};

// The sums of a tile over [begin, end) of the depth.
template <class S, class Elem>
DEVICE void multiply_matrices(typename S::Shared& tiles, const Matrix<Elem>& a, const Matrix<Elem>& b,
                              int begin, int end, typename S::Sum (&acc)[S::FM][S::FN]) {
    S::clear(acc);
    if constexpr (S::is_async) {
        AsyncOperand<S, Elem, S::m> pa(a.form, a.base, a.row_step, a.k_step, a.row0, a.rows, begin);
        AsyncOperand<S, Elem, S::n> pb(b.form, b.base, b.row_step, b.k_step, b.row0, b.rows, begin);
        async_multiply<S>(tiles, ceil_div(end - begin, S::k), acc, [&](int stage, int step) {
            const int left = end - begin - step * S::k;
            pa.copy(tiles.a[stage], left), pb.copy(tiles.b[stage], left);
        });
    } else {
        Operand<Elem, S::m, S::k> pa(a.form, a.base, a.row_step, a.k_step, a.row0, a.rows, begin);
        Operand<Elem, S::n, S::k> pb(b.form, b.base, b.row_step, b.k_step, b.row0, b.rows, begin);
        pa.load(end - begin), pb.load(end - begin);
        pa.store(tiles.a[0]), pb.store(tiles.b[0]);
        __syncthreads();
        int buffer = 0;
        NO_UNROLL for (int left = end - begin; left > 0; left -= S::k) {
            const bool more = left > S::k;
            if (more) pa.load(left - S::k), pb.load(left - S::k);   // in flight while this step is multiplied
            S::multiply(tiles, buffer, acc);
            buffer ^= 1;
            if (more) pa.store(tiles.a[buffer]), pb.store(tiles.b[buffer]);
            __syncthreads();
        }
    }
}

}  // namespace cydnn
