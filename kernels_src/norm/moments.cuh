// What the batch norm kernels share: mergeable statistics, and the fixed-order merges over a block and over splits.
//
//   Stat<A>      count, mean and sum of squared differences of the x seen so far
//   GradSum<A>   sum of dy, and of dy * (x - mean) with a mean known before
//   GradStat<A>  both, when the mean is not known before: dot = sum of dy * (x - mean of this part)
//   merge(a, b)  the part of both; the order of merges is fixed by the launch, so results are the same in every run
//
// A tensor is seen as rows x columns: a column is what has one mean (a channel, or one activation), a row is one of its
// samples. Rows and columns are up to four digits each, innermost first; `place` turns a number into an offset.
#pragma once
#include "lib/reduce.cuh"

namespace cydnn {

template <class A> struct Stat { A n, mean, m2; };
template <class A> struct GradSum { A sum, dot; };
template <class A> struct GradStat { A n, mean, m2, sum, dot; };

// Chan, Golub, LeVeque (1979). Written from a's side: equal means stay exactly equal, and an empty side changes nothing.
template <class A> DEVICE Stat<A> merge(const Stat<A>& a, const Stat<A>& b) {
    const A n = a.n + b.n, share = n == 0 ? A(0) : b.n / n, apart = b.mean - a.mean;
    return {n, a.mean + apart * share, a.m2 + b.m2 + apart * (apart * (a.n * share))};
}
template <class A> DEVICE GradSum<A> merge(const GradSum<A>& a, const GradSum<A>& b) {
    return {a.sum + b.sum, a.dot + b.dot};
}
template <class A> DEVICE GradStat<A> merge(const GradStat<A>& a, const GradStat<A>& b) {
    const Stat<A> x = merge(Stat<A>{a.n, a.mean, a.m2}, Stat<A>{b.n, b.mean, b.m2});
    const A dot = a.dot + b.dot + a.sum * (a.mean - x.mean) + b.sum * (b.mean - x.mean);
    return {x.n, x.mean, x.m2, a.sum + b.sum, dot};
}

// From sums about a shift (one of the values, so a large mean costs no digits): s = sum(x - shift), q = sum((x - shift)^2),
// sum = sum(dy), dot = sum(dy * (x - shift)). A comparison keeps the NaN that fmax would drop.
template <class A> DEVICE Stat<A> stat_of(A n, A shift, A s, A q) {
    if (n == 0) return {};
    const A step = s / n, m2 = q - s * step;
    return {n, shift + step, m2 < 0 ? A(0) : m2};
}
template <class A> DEVICE GradStat<A> stat_of(A n, A shift, A s, A q, A sum, A dot) {
    const Stat<A> x = stat_of(n, shift, s, q);
    return {x.n, x.mean, x.m2, sum, n == 0 ? A(0) : dot - sum * (s / n)};
}

// Every thread brings V parts: those of columns lane * V + i, lane = threadIdx.x % lanes, from its own group of rows. The
// parts of all groups are merged and sink(column, part) is called once for each of the lanes * V columns of the block.
// All threads of the block call. `Some` columns a thread go through shared memory at a time, to stay below 48 KB.
template <int Threads, int V, class Part, class Sink>
DEVICE void combine_columns(const Part (&mine)[V], int lanes_log2, Sink sink) {
    constexpr int Some = V == 1 || sizeof(Part) > 24 ? 1 : 2;
    __shared__ Part parts[Threads * (Some + 1)];
    const int lanes = 1 << lanes_log2, groups = Threads >> lanes_log2, columns = lanes * Some, pitch = columns + 1;
    const int lane = threadIdx.x & (lanes - 1), group = threadIdx.x >> lanes_log2;
    const int team_log2 = min(5, 31 - __clz(Threads / columns)), team = 1 << team_log2;   // threads of one column
    const int column = threadIdx.x >> team_log2, member = threadIdx.x & (team - 1);
    UNROLL for (int pass = 0; pass < V; pass += Some) {
        UNROLL for (int i = 0; i < Some; ++i) parts[group * pitch + lane * Some + i] = mine[pass + i];
        __syncthreads();
        Part all = {};
        if (column < columns)
            for (int g = member; g < groups; g += team) all = merge(all, parts[g * pitch + column]);
        for (int mask = 1; mask < team; mask *= 2) all = merge(all, shuffle_xor(all, mask));
        if (column < columns && member == 0) sink(column / Some * V + pass + column % Some, all);
        __syncthreads();                                    // parts are rewritten in the next pass
    }
}

// Merge the parts [columns of the tensor][splits] that another launch left, for `count` columns (a power of two, at most
// Threads) from `first` on; sink(column - first, part) is called once for each that exists. All threads call.
template <int Threads, class Part, class Sink>
DEVICE void combine_splits(const Part* parts, int splits, int first, int count, int cols, Sink sink) {
    const int team_log2 = min(5, 31 - __clz(Threads / count)), team = 1 << team_log2;
    const int column = threadIdx.x >> team_log2, member = threadIdx.x & (team - 1);
    const bool mine = column < count && first + column < cols;
    Part all = {};
    if (mine) {
        const Part* p = parts + i64(first + column) * splits;
        _Pragma("unroll 4") for (int s = member; s < splits; s += team) all = merge(all, p[s]);
    }
    for (int mask = 1; mask < team; mask *= 2) all = merge(all, shuffle_xor(all, mask));
    if (mine && member == 0) sink(column, all);
}

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

// Rows of one split: [first, last), and the order they are walked in: `flip + sign * row` runs backwards when reverse.
struct Split {
    int first, last, flip, sign;
    DEVICE Split(int index, int rows_per_split, int rows, bool reverse = false) {
        first = min(rows, index * rows_per_split), last = min(rows, first + rows_per_split);
        flip = reverse ? first + last - 1 : 0, sign = reverse ? -1 : 1;
    }
    DEVICE int at(int row) const { return flip + sign * row; }
};

}  // namespace cydnn
