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

}  // namespace cydnn
