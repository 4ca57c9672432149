// The per-column arithmetic of batch norm: from the statistics (or the given ones) to y = (x - center) * slope + shift,
// and the small outputs. `finish_column` takes column strides in the order of the constants below.
#pragma once
#include "moments.cuh"

namespace cydnn {

template <class A> struct Parameters {
    const A *scale, *bias, *running_mean, *running_var;
    A *mean, *rstd, *next_running_mean, *next_running_var;
    A epsilon, factor;
};
template <class A> struct Line { A center, slope, shift; };

// Strides: 0 scale, 1 bias, 2 running_mean, 3 running_var, 4 mean, 5 rstd, 6 next_running_mean, 7 next_running_var.
// Without `stat`, running_mean and running_var are the statistics (inference). Old running values are not read when
// factor is 1 or when there are none; each is read before its successor is written, so both may be one buffer.
template <class A, int Count>
DEVICE Line<A> finish_column(const Parameters<A>& p, int column, const Stat<A>* stat, bool store,
                             const Array<FastDiv, 4>& sizes, const Array<i64, Count>& strides) {
    A mean, var, unbiased = 0;
    if (stat) {
        var = stat->m2 / stat->n, mean = stat->n == 0 ? var : stat->mean;      // nothing to average: NaN
        unbiased = stat->m2 / (stat->n > 1 ? stat->n - 1 : A(1));
    } else {
        mean = p.running_mean[place<2>(column, sizes, strides)], var = p.running_var[place<3>(column, sizes, strides)];
    }
    const A rstd = A(1) / sqrt(var + p.epsilon);
    if (stat && store) {
        if (p.mean) p.mean[place<4>(column, sizes, strides)] = mean;
        if (p.rstd) p.rstd[place<5>(column, sizes, strides)] = rstd;
        const auto advance = [&](const A* old, i64 from, A* next, i64 to, A fresh) {
            if (!next) return;
            const A kept = old && p.factor != 1 ? (1 - p.factor) * old[from] : A(0);
            next[to] = kept + p.factor * fresh;
        };
        advance(p.running_mean, place<2>(column, sizes, strides), p.next_running_mean, place<6>(column, sizes, strides), mean);
        advance(p.running_var, place<3>(column, sizes, strides), p.next_running_var, place<7>(column, sizes, strides), unbiased);
    }
    return {mean, p.scale[place<0>(column, sizes, strides)] * rstd, p.bias[place<1>(column, sizes, strides)]};
}


}  // namespace cydnn
