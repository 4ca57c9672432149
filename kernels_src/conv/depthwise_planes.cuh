// What the depthwise kernels of NCHW images share. Planes of a channel of an image follow each other in
// memory without gaps. A block has `group` whole planes, or, of one plane, a band of `strips` strips, each
// `rows` rows of the output; it brings what it reads to shared memory as it lies there (cp.async). A thread
// has two neighbouring columns of a strip and walks down: each row of the input adds to the rows of the
// output that it meets, whose sums are in registers.
#pragma once
#include "lib/math.cuh"
#include "lib/mma.cuh"

namespace cydnn {

// Bytes around the rows in shared memory, which windows that begin or end outside read and do not use.
constexpr int THREADS = 128, FRONT = 32, BEHIND = 48;

// Begins to bring `count` elements from `begin` on to shared memory, with what the 16 bytes around them hold;
// nothing behind `total`. Around them are zeros. Returns where the first of them will be.
template <class Elem>
DEVICE const Elem* bring_run(char* memory, const Elem* from, i64 begin, int count, i64 total) {
    constexpr int EACH = 16 / int(sizeof(Elem));
    const int skip = int(begin % EACH), vectors = ceil_div(skip + count, EACH);
    if (threadIdx.x < (FRONT + BEHIND) / 16) {
        char* const edge = memory + threadIdx.x * 16 + (threadIdx.x < FRONT / 16 ? 0 : vectors * 16);
        *reinterpret_cast<uint4*>(edge) = uint4{0, 0, 0, 0};
    }
    memory += FRONT;
    const unsigned to = shared_address(memory);
    from += begin - skip, total -= begin - skip;
    const int whole = int(min(i64(vectors), total / EACH));
    NO_UNROLL for (int i = threadIdx.x; i < whole; i += THREADS) cp_async<16>(to + i * 16, from + i * EACH);
    if (whole < vectors && threadIdx.x < EACH) {                     // the tensor ends within 16 bytes
        const int i = whole * EACH + threadIdx.x;
        reinterpret_cast<Elem*>(memory)[i] = i < total ? from[i] : from_acc<Elem>(0.f);
    }
    return reinterpret_cast<const Elem*>(memory) + skip;
}

// What a block is about, of images whose rows are walked down in strips of `rows`.
struct PlaneCut {
    int planes, group, strips, rows;                                 // of all images; of a block
    FastDiv bands, pairs, of_strips;
    Array<int, 2> out, size;

    DEVICE int area() const { return size[0] * size[1]; }
    DEVICE bool is_whole() const { return group > 1; }               // planes, not a band of one
};

// Where a block is: its first plane and how many there are, its band of a plane.
struct PlaneBlock {
    i64 plane;
    int planes, band;
    DEVICE PlaneBlock(unsigned block, const PlaneCut& cut) {
        unsigned of;
        plane = i64(cut.bands.divmod(block, of)) * cut.group, band = of;
        planes = int(min(i64(cut.group), cut.planes - plane));
    }
    DEVICE PlaneBlock(i64 plane, int planes, int band) : plane(plane), planes(planes), band(band) {}
};

// Rows in shared memory: of whole planes, or those of a band from `top` to before `bottom`.
template <class Elem> struct Staged {
    const Elem* at;                                                  // row 0 of the first plane
    int end, width, area;                                            // no row from `end` on is there

    DEVICE Staged() {}
    DEVICE Staged(char* memory, const Elem* x, const PlaneBlock& block, const PlaneCut& cut, int top,
                  int bottom)
        : width(cut.size[1]), area(cut.area()) {
        const int first = cut.is_whole() ? 0 : min(max(top, 0), cut.size[0]);
        end = cut.is_whole() ? cut.size[0] : max(min(bottom, cut.size[0]), first);
        const int count = (block.planes - 1) * area + (end - first) * width;
        at = bring_run(memory, x, block.plane * area + i64(first) * width, count, i64(cut.planes) * area)
             - first * width;
    }
    DEVICE const Elem* row(int plane, int row) const { return at + plane * area + row * width; }
};

// The taps of a filter in registers.
template <int TAPS, class Elem>
DEVICE void filter_of(float (&f)[TAPS][TAPS], const Elem* w, const Array<i64, 2>& w_s) {
    UNROLL for (int r = 0; r < TAPS; ++r)
        UNROLL for (int s = 0; s < TAPS; ++s) f[r][s] = to_acc(w[r * w_s[0] + s * w_s[1]]);
}

// The columns that two neighbouring outputs of a thread read. What lies outside is read, too, and made zero.
template <int COUNT> struct Columns {
    int first;                                                       // of a row, where they begin
    unsigned keep[COUNT];                                            // all ones: it is inside

    DEVICE Columns(int left, int width) : first(max(min(left, width), -COUNT + 1)) {
        UNROLL for (int i = 0; i < COUNT; ++i) keep[i] = unsigned(left + i) < unsigned(width) ? ~0u : 0u;
    }
    template <class Elem> DEVICE void read(const Elem* row, float (&v)[COUNT]) const {
        UNROLL for (int i = 0; i < COUNT; ++i)
            v[i] = __uint_as_float(__float_as_uint(to_acc(row[i])) & keep[i]);
    }
};

// alpha * sums + beta * y of two neighbours: in one access where `pairs`, else the second only where it is
// inside.
template <class Elem>
DEVICE void store_columns(Elem* y, const float (&sums)[2], float alpha, float beta, bool second, bool pairs) {
    if (pairs) {
        float v[2] = {alpha * sums[0], alpha * sums[1]}, old[2];
        if (beta != 0.f) {
            Vec<Elem, 2>::load(y).get(old);
            UNROLL for (int i = 0; i < 2; ++i) v[i] += beta * old[i];
        }
        Vec<Elem, 2>::of(v).store(y);
        return;
    }
    y[0] = from_acc<Elem>(blend(alpha, sums[0], beta, y));
    if (second) y[1] = from_acc<Elem>(blend(alpha, sums[1], beta, y + 1));
}

// y[p, q] = sum over r, s of w[r, s] * x[p * STEP - pad + r, q * STEP - pad + s], of planes.
// SKIP: what is outside x is left out rather than multiplied by zero (which matters for infinite filters
// only).
template <int TAPS, int STEP, bool SKIP, class Elem>
DEVICE void walk_planes(const Elem* x, const Elem* w, Elem* y, float alpha, float beta, const PlaneCut& cut,
                        FastDiv channels, const Array<int, 2>& pad, i64 w_c, const Array<i64, 2>& w_s) {
    constexpr int DEEP = (TAPS + STEP - 1) / STEP, IN = STEP + TAPS, LAST = DEEP - 1;
    extern __shared__ __align__(16) char memory[];
    const PlaneBlock block(blockIdx.x, cut);
    const int height = cut.size[0], width = cut.size[1], from = block.band * cut.strips * cut.rows;
    const int last = min(from + cut.strips * cut.rows, cut.out[0]) - 1;
    const int items = block.planes * cut.strips * int(cut.pairs.by);
    const unsigned mine = cut.of_strips.div(cut.pairs.div(min(int(threadIdx.x), items - 1)));
    float f[TAPS][TAPS];
    filter_of<TAPS>(f, w + channels.mod(unsigned(block.plane) + mine) * w_c, w_s);
    const Staged<Elem> staged(memory, x, block, cut, from * STEP - pad[0], last * STEP - pad[0] + TAPS);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    NO_UNROLL for (int item = threadIdx.x; item < items; item += THREADS) {
        unsigned pair, strip;
        cut.of_strips.divmod(cut.pairs.divmod(item, pair), strip);
        const int q = pair * 2, p0 = from + strip * cut.rows, p1 = min(p0 + cut.rows, cut.out[0]);
        if (p0 >= p1) continue;
        const int steps = p1 - p0 + LAST;
        const Columns<IN> columns(q * STEP - pad[1], width);
        const bool second = q + 1 < cut.out[1], by_two = cut.out[1] % 2 == 0;
        int row = p0 * STEP - pad[0];
        const Elem* line = staged.row(mine, row) + columns.first;
        Elem* to = y + (block.plane + mine) * (i64(cut.out[0]) * cut.out[1]) + i64(p0 - LAST) * cut.out[1]
                   + q;

        float sums[DEEP][2] = {};                                    // of row k - j: [(k - j) % DEEP]
        NO_UNROLL for (int k0 = 0; k0 < steps; k0 += DEEP)
            UNROLL for (int d = 0; d < DEEP; ++d) {
                if (k0 + d >= steps) break;
                UNROLL for (int u = 0; u < STEP; ++u, ++row, line += width) {
                    const bool inside = unsigned(row) < unsigned(staged.end);
                    if (SKIP && !inside) continue;
                    float v[IN] = {};
                    if (inside) columns.read(line, v);
                    UNROLL for (int j = 0; j < DEEP; ++j)
                        UNROLL for (int i = 0; i < 2; ++i)
                            UNROLL for (int s = 0; s < TAPS; ++s)
                                if (j * STEP + u < TAPS && (!SKIP || columns.keep[i * STEP + s]))
                                    sums[(d - j + DEEP) % DEEP][i] += f[j * STEP + u][s] * v[i * STEP + s];
                }
                float(&done)[2] = sums[(d + 1) % DEEP];
                if (k0 + d >= LAST) store_columns(to, done, alpha, beta, second, by_two);
                to += cut.out[1], done[0] = 0.f, done[1] = 0.f;
            }
    }
}

}  // namespace cydnn
