// What the backward kernels of batch norm share: the sums of a thread, and the finish of a column.
//
//   GradSums<A, Known>  one column's sums in one thread; Known: the mean is given, else found on the way
//   fetch_gradient      its parameters, ahead of time
//   finish_gradient     from the sums of a column: dscale, dbias, and
//                       dx = slope * (dy - offset - (x - center) * tilt)
#pragma once
#include "moments.cuh"

namespace cydnn {

template <class A, bool Known> struct GradSums;
template <class A> struct GradSums<A, true> {
    using Part = GradSum<A>;
    A center, sum, dot;
    DEVICE void start(A mean) { center = mean, sum = dot = 0; }
    DEVICE void add(A x, A dy) { sum += dy, dot += dy * (x - center); }
    DEVICE void join(const GradSums& o) { sum += o.sum, dot += o.dot; }  // of the same center
    DEVICE Part part(int) const { return {sum, dot}; }
};
template <class A> struct GradSums<A, false> {
    using Part = GradStat<A>;
    A center, sum, dot, s, q;
    DEVICE void start(A shift) { center = shift, sum = dot = s = q = 0; }
    DEVICE void add(A x, A dy) {
        const A d = x - center;
        sum += dy, dot += dy * d, s += d, q += d * d;
    }
    DEVICE void join(const GradSums& o) { sum += o.sum, dot += o.dot, s += o.s, q += o.q; }
    DEVICE Part part(int count) const { return stat_of(A(count), center, s, q, sum, dot); }
};

template <class A> struct Gradients {
    const A *scale, *mean, *rstd;
    A *dscale, *dbias;
    A epsilon, alpha_param, beta_param;
    int rows;
};
template <class A> struct Plane { A center, slope, offset, tilt; };

// What a column's finish reads, loaded early: behind the wait for x and dy, not after it.
template <class A> struct FetchedGrad { A scale, mean, rstd; };

// Column strides: 0 scale, 1 mean, 2 rstd, 3 dscale, 4 dbias.
// dx uses the fresh sums, not the blended outputs.
template <bool Known, class A, int Count>
DEVICE FetchedGrad<A> fetch_gradient(const Gradients<A>& p, int column, const Array<FastDiv, 4>& sizes,
                                     const Array<i64, Count>& strides) {
    FetchedGrad<A> f = {p.scale[place<0>(column, sizes, strides)], 0, 0};
    if constexpr (Known)
        f.mean = p.mean[place<1>(column, sizes, strides)], f.rstd = p.rstd[place<2>(column, sizes, strides)];
    return f;
}
template <class A, int Count>
DEVICE Plane<A> finish_gradient(const Gradients<A>& p, const FetchedGrad<A>& f, int column,
                                const GradSum<A>& all, bool store, const Array<FastDiv, 4>& sizes,
                                const Array<i64, Count>& strides) {
    const A dscale = f.rstd * all.dot;
    if (store) {
        A* ds = p.dscale + place<3>(column, sizes, strides);
        A* db = p.dbias + place<4>(column, sizes, strides);
        *ds = blend(p.alpha_param, dscale, p.beta_param, ds);
        *db = blend(p.alpha_param, all.sum, p.beta_param, db);
    }
    return {f.mean, f.scale * f.rstd, all.sum / p.rows, f.rstd * dscale / p.rows};
}
template <class A, int Count>
DEVICE Plane<A> finish_gradient(const Gradients<A>& p, const FetchedGrad<A>& f, int column,
                                const GradStat<A>& all, bool store, const Array<FastDiv, 4>& sizes,
                                const Array<i64, Count>& strides) {
    const A var = all.n == 0 ? A(0) : all.m2 / all.n;  // no rows: the sums are 0 whatever the statistics are
    const FetchedGrad<A> found = {f.scale, all.mean, A(1) / sqrt(var + p.epsilon)};
    return finish_gradient(p, found, column, GradSum<A>{all.sum, all.dot}, store, sizes, strides);
}

}  // namespace cydnn
