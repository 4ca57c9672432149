// The per-column arithmetic of batch norm: from the statistics (or the given ones) to
// y = (x - center) * slope + shift, and the small outputs. `finish_column` takes column strides in the order
// of the constants below.
#pragma once
#include "moments.cuh"

namespace cydnn {

template <class A> struct Parameters {
    const A *scale, *bias, *running_mean, *running_var;
    A *mean, *rstd, *next_running_mean, *next_running_var;
    A epsilon, factor;
};
template <class A> struct Line { A center, slope, shift; };

// What a column's finish reads, loaded early: behind the wait for x, not after it.
template <class A> struct Fetched { A scale, bias, mean, var; };

// Strides: 0 scale, 1 bias, 2 running_mean, 3 running_var, 4 mean, 5 rstd, 6 next_running_mean,
// 7 next_running_var. Not `found` (inference): running_mean and running_var are the statistics. Else old
// running values are read only by who stores their successors, and not when factor is 1; each is read before
// its successor is written, so both may be one buffer.
template <class A, int Count>
DEVICE Fetched<A> fetch_column(const Parameters<A>& p, int column, bool found, bool store,
                               const Array<FastDiv, 4>& sizes, const Array<i64, Count>& strides) {
    const bool reads = !found || (store && p.factor != 1);
    Fetched<A> f = {p.scale[place<0>(column, sizes, strides)], p.bias[place<1>(column, sizes, strides)],
                    0, 0};
    if (reads && p.running_mean) f.mean = p.running_mean[place<2>(column, sizes, strides)];
    if (reads && p.running_var) f.var = p.running_var[place<3>(column, sizes, strides)];
    return f;
}
template <class A, int Count>
DEVICE Line<A> finish_column(const Parameters<A>& p, const Fetched<A>& f, int column, bool found,
                             const Stat<A>& stat, bool store, const Array<FastDiv, 4>& sizes,
                             const Array<i64, Count>& strides) {
    A mean = f.mean, var = f.var, unbiased = 0;
    if (found) {
        var = stat.m2 / stat.n, mean = stat.n == 0 ? var : stat.mean;      // nothing to average: NaN
        unbiased = stat.m2 / (stat.n > 1 ? stat.n - 1 : A(1));
    }
    const A rstd = A(1) / sqrt(var + p.epsilon);
    if (found && store) {
        if (p.mean) p.mean[place<4>(column, sizes, strides)] = mean;
        if (p.rstd) p.rstd[place<5>(column, sizes, strides)] = rstd;
        const auto advance = [&](const A* given, A old, A* next, i64 to, A fresh) {
            if (next) next[to] = (given && p.factor != 1 ? (1 - p.factor) * old : A(0)) + p.factor * fresh;
        };
        advance(p.running_mean, f.mean, p.next_running_mean, place<6>(column, sizes, strides), mean);
        advance(p.running_var, f.var, p.next_running_var, place<7>(column, sizes, strides), unbiased);
    }
    return {mean, f.scale * rstd, f.bias};
}

}  // namespace cydnn
