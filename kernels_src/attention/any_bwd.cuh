// What the kernels of attention's gradients share. Their marks beside those of any_marks.cuh:
//
//   load_o, load_do row col; load_stats row     spliced code loads
//   dscore col              the gradient of a score becomes that of what q @ k is there, or of a tensor
//   store_dq row depth      store_dk key depth      store_dv key col      store_dbias row col
//   store_dsink             at batch and head      store_peak row
//
// `dscore` comes behind `score` at the same element, and reads what that kept in the same slot.
#pragma once
#include "attention/any_marks.cuh"
#include "lib/reduce.cuh"

namespace cydnn {

#define CYDNN_MARK(NAME, VALUE, LETTER, ROW, COL)                                            \
    DEVICE void fuse_##NAME(VALUE& v, i64 off, int batch, int head, int row, int col) {      \
        asm volatile("// @fuse." #NAME " v=%0 off=%1 batch=%2 head=%3 " ROW "=%4 " COL "=%5;" \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row), "r"(col)); \
    }
#define CYDNN_MARKS(VALUE, LETTER)                                                                 \
    CYDNN_MARK(load_o, VALUE, LETTER, "row", "col")                                                \
    CYDNN_MARK(load_do, VALUE, LETTER, "row", "col")                                               \
    CYDNN_MARK(store_dq, VALUE, LETTER, "row", "depth")                                            \
    CYDNN_MARK(store_dk, VALUE, LETTER, "key", "depth")                                            \
    CYDNN_MARK(store_dv, VALUE, LETTER, "key", "col")                                              \
    CYDNN_MARK(store_dbias, VALUE, LETTER, "row", "col")                                           \
    DEVICE void fuse_store_peak(VALUE& v, i64 off, int batch, int head, int row) {                 \
        asm volatile("// @fuse.store_peak v=%0 off=%1 batch=%2 head=%3 row=%4;"                    \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row));                 \
    }                                                                                              \
    DEVICE void fuse_store_dsink(VALUE& v, int batch, int head) {                                  \
        asm volatile("// @fuse.store_dsink v=%0 batch=%1 head=%2;"                                 \
                     : "+" LETTER(v) : "r"(batch), "r"(head));                                     \
    }                                                                                              \
    DEVICE void fuse_load_stats(VALUE& v, i64 off, int batch, int head, int row) {                 \
        asm volatile("// @fuse.load_stats v=%0 off=%1 batch=%2 head=%3 row=%4;"                    \
                     : "+" LETTER(v) : "l"(off), "r"(batch), "r"(head), "r"(row));                 \
    }                                                                                              \
    template <int Slot> DEVICE void fuse_dscore(VALUE& v, int batch, int head, int row, int col) { \
        asm volatile("// @fuse.dscore v=%0 batch=%1 head=%2 row=%3 col=%4 slot=%5;"                \
                     : "+" LETTER(v) : "r"(batch), "r"(head), "r"(row), "r"(col), "n"(Slot));      \
    }
CYDNN_MARKS(float, "f")
CYDNN_MARKS(double, "d")
#undef CYDNN_MARKS
#undef CYDNN_MARK

// An element of the batch of a tensor NAME, which lies in NAME_in with strides NAME_steps, if it is there.
#define CYDNN_AT(WAY, NAME, VALUE, BATCH, HEAD, ROW, COL)                                        \
    if (const i64 off = NAME##_in.at(NAME##_steps, HEAD, ROW, COL); NAME##_in.has(off))          \
    fuse_##WAY##_##NAME(VALUE, off, BATCH, HEAD, ROW, COL)
#define CYDNN_LOAD(...) CYDNN_AT(load, __VA_ARGS__)
#define CYDNN_STORE(...) CYDNN_AT(store, __VA_ARGS__)
#define CYDNN_LOAD_STATS(VALUE, BATCH, HEAD, ROW)                                                \
    if (const i64 off = stats_in.begin + HEAD * stats_steps[1] + ROW * stats_steps[2];           \
        stats_in.has(off))                                                                       \
    fuse_load_stats(VALUE, off, BATCH, HEAD, ROW)

// Which keys a query of a batch sees. left, right: on either side of the diagonal, -1: all.
struct Band {
    int n_q, n_kv, left, right, shift;
    DEVICE Band(const int* len_q, const int* len_kv, i64 at_q, i64 at_kv, int s_q, int s_kv, int left_,
                int right_, int from_end) {
        n_q = len_q ? max(0, min(len_q[at_q], s_q)) : s_q;
        n_kv = len_kv ? max(0, min(len_kv[at_kv], s_kv)) : s_kv;
        left = left_, right = right_, shift = from_end ? n_kv - n_q : 0;
    }
    DEVICE int first(int row) const { return left < 0 ? 0 : max(0, row + shift - left); }
    DEVICE int end(int row) const { return right < 0 ? n_kv : min(n_kv, row + shift + right + 1); }
    DEVICE int first_row(int key) const { return right < 0 ? 0 : max(0, key - shift - right); }
    DEVICE int end_row(int key) const { return left < 0 ? n_q : min(n_q, key - shift + left + 1); }
    DEVICE bool has(int row, int key) const { return row < n_q && key >= first(row) && key < end(row); }
};

// A tile of `Lines` lines by a chunk of columns in shared memory, of a block of 128 threads: load(value,
// line, column) where the line is below `lines` and the column below `columns`; else 0.
template <class S, int Lines> struct Chunk {
    static constexpr int SIZE = 256 / sizeof(S), PITCH = SIZE + 1;
    S* tile;
    template <class Load> DEVICE void bring(int lines, int columns, Load load) const {
        const int c = threadIdx.x % SIZE;
        __syncthreads();
#pragma unroll 4
        for (int n = 0; n < Lines; n += 128 / SIZE) {
            const int i = n + threadIdx.x / SIZE;
            S value = 0;
            if (i < lines && c < columns) load(value, i, c);
            tile[i * PITCH + c] = value;
        }
        __syncthreads();
    }
    DEVICE S operator()(int line, int column) const { return tile[line * PITCH + column]; }
};

}  // namespace cydnn
