// What the batch norm kernels share: mergeable statistics, and the fixed-order merges over
// a block and over splits.
//
//   Stat<A>      count, mean and sum of squared differences of the x seen so far
//   GradSum<A>   sum of dy, and of dy * (x - mean) with a mean known before
//   GradStat<A>  both, when the mean is not known before: dot = sum of dy * (x - mean of this part)
//   merge(a, b)  the part of both; the order of merges is fixed by the launch, so results are
//                the same in every run
//   Team         the threads that merge a column's parts
//   Window       a thread's rows, loaded ahead of their use
//
// A tensor is seen as rows x columns: a column is what has one mean (a channel, or one activation),
// a row is one of its samples. Rows and columns are up to four digits each, innermost first; `place` turns
// a number into an offset.
#pragma once
#include "lib/reduce.cuh"

namespace cydnn {

template <class A> struct Stat { A n, mean, m2; };
template <class A> struct GradSum { A sum, dot; };
template <class A> struct GradStat { A n, mean, m2, sum, dot; };

// Chan, Golub, LeVeque (1979). Written from a's side: equal means stay exactly equal, and an empty side
// changes nothing. No branch: one would keep the loads of the next part behind it.
template <class A> DEVICE Stat<A> merge(const Stat<A>& a, const Stat<A>& b) {
    const A n = a.n + b.n, share = div_fast(b.n, n < 1 ? A(1) : n), apart = b.mean - a.mean;
    return {n, a.n == 0 ? b.mean : a.mean + apart * share, a.m2 + b.m2 + apart * (apart * (a.n * share))};
}
template <class A> DEVICE GradSum<A> merge(const GradSum<A>& a, const GradSum<A>& b) {
    return {a.sum + b.sum, a.dot + b.dot};
}
template <class A> DEVICE GradStat<A> merge(const GradStat<A>& a, const GradStat<A>& b) {
    const Stat<A> x = merge(Stat<A>{a.n, a.mean, a.m2}, Stat<A>{b.n, b.mean, b.m2});
    const A dot = a.dot + b.dot + a.sum * (a.mean - x.mean) + b.sum * (b.mean - x.mean);
    return {x.n, x.mean, x.m2, a.sum + b.sum, dot};
}

// From sums about a shift (one of the values, so a large mean costs no digits): s = sum(x - shift),
// q = sum((x - shift)^2), sum = sum(dy), dot = sum(dy * (x - shift)). A comparison keeps the NaN that fmax
// would drop. Here and in dx, a - b * c is written as fma: nvcc leaves it to ptxas, which fuses it or not.
template <class A> DEVICE Stat<A> stat_of(A n, A shift, A s, A q) {
    if (n == 0) return {};
    const A step = div_fast(s, n), m2 = fma(-s, step, q);
    return {n, shift + step, m2 < 0 ? A(0) : m2};
}
template <class A> DEVICE GradStat<A> stat_of(A n, A shift, A s, A q, A sum, A dot) {
    const Stat<A> x = stat_of(n, shift, s, q);
    return {x.n, x.mean, x.m2, sum, n == 0 ? A(0) : fma(-sum, div_fast(s, n), dot)};
}

// The threads that merge the parts of one column: 32 at most, and as many for each of the block's
// `columns` (a power of two).
template <int Threads> struct Team {
    int column, member, size;
    bool works, leads;                                      // leads: the one thread that gets the merged part
    DEVICE explicit Team(int columns) {
        const int log2 = min(5, 31 - __clz(Threads / columns));
        column = threadIdx.x >> log2, size = 1 << log2, member = threadIdx.x & (size - 1);
        works = column < columns, leads = works && member == 0;
    }
    // p[0], p[stride] … of the team's column, merged; all threads of the block call. Loads of
    // several parts go out together: one after the other, each would wait for L2. Most: of how many,
    // where a thread has few.
    template <int Most = 8, class Part> DEVICE Part merged(const Part* p, int count, int stride) const {
        constexpr int Fits = sizeof(Part) <= 12 ? 8 : sizeof(Part) <= 20 ? 4 : 2,
                      Ahead = Most < Fits ? Most : Fits;
        Part all = {};
        NO_UNROLL for (int s = member; works && s < count; s += Ahead * size) {
            Part some[Ahead];
            UNROLL for (int k = 0; k < Ahead; ++k) some[k] = p[i64(min(s + k * size, count - 1)) * stride];
            UNROLL for (int k = 0; k < Ahead; ++k)
                if (s + k * size < count) all = merge(all, some[k]);
        }
        for (int mask = 1; mask < size; mask *= 2) all = merge(all, shuffle_xor(all, mask));
        return all;
    }
};

// Every thread brings V parts: those of columns lane * V + i, lane = threadIdx.x % lanes (8 at most when
// V > 1), from its own group of rows. Groups of a warp merge by shuffles, warps through shared memory;
// team leaders get their column's part.
template <int Threads, int V, class Part, int Widest = V == 1 ? 32 : 8 * V>
DEVICE Part combine_columns(const Team<Threads>& team, Part (&mine)[V], int lanes_log2) {
    constexpr int Warps = Threads / 32;
    __shared__ Part parts[Warps * Widest];
    const int lanes = 1 << lanes_log2, columns = V << lanes_log2, lane = threadIdx.x % 32,
              warp = threadIdx.x / 32;
    NO_UNROLL for (int mask = lanes; mask < 32; mask *= 2)
        UNROLL for (int i = 0; i < V; ++i) mine[i] = merge(mine[i], shuffle_xor(mine[i], mask));
    if (lane < lanes)
        UNROLL for (int i = 0; i < V; ++i) parts[warp * columns + lane * V + i] = mine[i];
    __syncthreads();
    // A team has Threads / Widest threads or more.
    return team.template merged<(Widest > 32 ? 2 : 1)>(parts + team.column, Warps, columns);
}

// Loads that run ahead: Slots x Rows rows of a thread are in flight, and a slot is loaded again as soon as
// it is used. A slot holds several rows because a warp can wait for six groups of loads, no more. Rows: row,
// row + step … below last. start() may come long before run(), with other work between.
template <int Slots, int Rows, class Item> struct Window {
    static constexpr int size = Slots * Rows;
    Item item[Slots][Rows];
    template <class Load> DEVICE void start(int row, int last, int step, Load load) {
        UNROLL for (int k = 0; k < size; ++k)
            if (row + k * step < last) item[k / Rows][k % Rows] = load(row + k * step);
    }
    template <class Load, class Use> DEVICE void run(int row, int last, int step, Load load, Use use) {
        NO_UNROLL for (; row + (2 * size - 1) * step < last; row += size * step)      // no test within
            UNROLL for (int k = 0; k < size; k += Rows) {
                UNROLL for (int j = 0; j < Rows; ++j) use(row + (k + j) * step, item[k / Rows][j]);
                UNROLL for (int j = 0; j < Rows; ++j) item[k / Rows][j] = load(row + (size + k + j) * step);
            }
        NO_UNROLL for (; row < last; row += size * step)
            UNROLL for (int k = 0; k < size; ++k) {
                const int now = row + k * step, next = now + size * step;
                if (k == 0 || now < last) use(now, item[k / Rows][k % Rows]);
                // Of the last slot, next >= last.
                if (k < size - 1 && next < last) item[k / Rows][k % Rows] = load(next);
            }
    }
};

// Offset of an index of `Digits` digits, innermost first; Tensor picks four of the strides.
template <int Tensor = 0, int Digits = 4, int Count>
DEVICE i64 place(unsigned index, const Array<FastDiv, 4>& sizes, const Array<i64, Count>& strides) {
    i64 offset = 0;
    UNROLL for (int k = 0; k < Digits - 1; ++k) {
        unsigned digit;
        index = sizes[k].divmod(index, digit);
        offset += digit * strides[4 * Tensor + k];
    }
    return offset + index * strides[4 * Tensor + Digits - 1];
}

// Rows of one split: [first, last). A second pass walks them backwards: what the first pass read
// last is still in L2.
struct Split {
    int first, last;
    DEVICE Split(int index, int rows_per_split, int rows) {
        first = min(rows, index * rows_per_split), last = min(rows, first + rows_per_split);
    }
    DEVICE int back(int row) const { return first + last - 1 - row; }
};

}  // namespace cydnn
