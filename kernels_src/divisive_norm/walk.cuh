// What the kernels share that walk down rows: a thread has Many neighbours in memory of each row. Sums along
// h are made of rows in registers; a Site (planes.cuh, channels.cuh) knows where a thread works, and makes
// the sums along w.
//
//   window_of<Most, Ahead, IsFull>(sum, q, n)  sums over windows of n <= Most cells (IsFull: n == Most)
//   Row<Elem, Many>                         a thread's elements of a row, as they lie in memory
//   Work<Elem>                              the numbers of a launch
//   raise(power, s, root)                   s^-power and s^-1/2
//   spread<…>                               sums over windows of (x - mean)^2
//
// With means the sums are those of z = x - r and z^2, with an r for the rows that a thread holds: the value
// nearest to 0 between their least and their largest. So |x - r| is at most 2 |x| in every window, and values
// far from 0 lose nothing to cancellation. Rows beyond the ends count as r.
#pragma once
#include "tile/local_norm.cuh"

namespace cydnn {

template <bool Yes> struct Is { static constexpr bool value = Yes; };

// sum[i] of q[i] and the Window - 1 behind it. Two neighbours of an odd window (5, 9) share all but their
// ends, and what they share is made of pairs that others share too.
template <int Window, int Count, class Value>
DEVICE void runs_of(Value (&sum)[Count], const Value (&q)[Count + Window - 1]) {
    if constexpr (Window % 2 == 0) {
        Value p[Count + Window - 1];
        UNROLL for (int i = 0; i < Count + Window - 1; ++i) p[i] = q[i];
        sum_runs<1, Window / 2>(p);
        UNROLL for (int i = 0; i < Count; ++i) sum[i] = p[i];
    } else {
        constexpr int pairs = (Count + 1) / 2 + Window / 2 - 1;
        Value p[pairs];
        UNROLL for (int k = 0; k < pairs; ++k) p[k] = q[2 * k + 1] + q[2 * k + 2];
        sum_runs<1, Window / 4>(p);
        UNROLL for (int i = 0; i < Count; ++i) sum[i] = p[i / 2] + q[i % 2 ? i + Window - 1 : i];
    }
}

// sum[i] of q[half + i] and its neighbours, as window_sums.
template <int Most, bool Ahead, bool IsFull, int Count, class Value>
DEVICE void window_of(Value (&sum)[Count], const Value (&q)[Count + 2 * Reach<Most>::half], int n) {
    if constexpr (IsFull) {
        constexpr int first = Most % 2 == 0 && Ahead;
        Value part[Count + Most - 1];
        UNROLL for (int i = 0; i < Count + Most - 1; ++i) part[i] = q[first + i];
        runs_of<Most>(sum, part);
    } else {
        window_sums<Most, Ahead>(sum, q, n);
    }
}

// Cells of a window around `at` that are there.
DEVICE int span_of(int at, int size, int window) {
    return min(at + window / 2, size - 1) - max(at - (window - 1) / 2, 0) + 1;
}

// Of a thread's elements of a row. Words and not elements are kept, for those of 16 bits share registers.
template <class Elem, int Many> struct Row {
    using Many_of = Vec<Elem, Many>;
    typename Many_of::Access word;
    DEVICE void set(const Many_of& v) { word = *reinterpret_cast<const decltype(word)*>(&v); }
    DEVICE acc_t<Elem> operator[](int j) const {
        return to_acc(reinterpret_cast<const Many_of*>(&word)->v[j]);
    }
    // The row h of a column; 0 where there is none.
    static DEVICE Row at(const Elem* p, i64 step, int h, int height) {
        Row row;
        row.set(channel_of<Many>(p, step, h, height));
        return row;
    }
};

// The i-th row behind p, to be read; the step is near. PTX ISA §mad (.wide): without shifts.
template <class Elem> DEVICE const Elem* near_row(const Elem* p, int step, int i) {
    size_t row;
    asm("mad.wide.s32 %0, %1, %2, %3;"
        : "=l"(row) : "r"(step), "r"(i * int(sizeof(Elem))), "l"(__cvta_generic_to_global(p)));
    return static_cast<const Elem*>(__cvta_global_to_generic(row));
}

// Rows h, h + 1, … to rows[First] and those behind it. Whole ones are there, and near.
template <int First, int Count, class Elem, int Many, int All>
DEVICE void load_rows(Row<Elem, Many> (&rows)[All], const Elem* p, i64 step, int h, int height,
                      bool is_whole) {
    if (is_whole) UNROLL for (int i = 0; i < Count; ++i)
        rows[First + i].set(Vec<Elem, Many>::load_nc(near_row(p + h * step, int(step), i)));
    else UNROLL for (int i = 0; i < Count; ++i)
        rows[First + i] = Row<Elem, Many>::at(p, step, h + i, height);
}

template <class Elem> struct Work {
    using Value = acc_t<Elem>;
    int height, per, window;
    bool is_near;
    Value scale, offset, alpha, beta;
    Power<Elem> power;
    Value slope = 0, lift = 0;                   // of the gradient

    // s of its sums.
    template <int Count, int Many> DEVICE void finish(Value (&sum)[Count][Many]) const {
        UNROLL for (int i = 0; i < Count; ++i)
            UNROLL for (int j = 0; j < Many; ++j) sum[i][j] = offset + scale * sum[i][j];
    }
    template <int Count, int Many>
    DEVICE void store(Elem* y, i64 step, Value (&out)[Count][Many], bool is_whole, int count) const {
        if (alpha != 1) UNROLL for (int i = 0; i < Count; ++i)
            UNROLL for (int j = 0; j < Many; ++j) out[i][j] *= alpha;
        if (is_whole && beta == 0) UNROLL for (int i = 0; i < Count; ++i)
            Vec<Elem, Many>::of(out[i]).store(y + i * int(step));
        else UNROLL for (int i = 0; i < Count; ++i)
            if (i < count) put(y + i * step, out[i], Value(1), beta);
    }
};

// s[i] becomes s[i]^-power, root[i] s[i]^-1/2; Before: the roots first, for all powers. One question for all
// of them.
template <bool Before = false, class Elem, int Count, int Many, class Value>
DEVICE void raise(const Power<Elem>& of, Value (&s)[Count][Many], Value (&root)[Count][Many]) {
    const auto each = [&](auto raised) {
        UNROLL for (int i = 0; i < Count; ++i)
            UNROLL for (int j = 0; j < Many; ++j) s[i][j] = raised(s[i][j], root[i][j]);
    };
    const auto root_of = [](Value x, Value& root) { return Before ? root : root = Power<Elem>::rsqrt_of(x); };
    if constexpr (Before) UNROLL for (int i = 0; i < Count; ++i)
        UNROLL for (int j = 0; j < Many; ++j) root[i][j] = Power<Elem>::rsqrt_of(s[i][j]);
    if (of.quarters == 3) each([&](Value x, Value& root) {
        const Value r = root_of(x, root);
        return r * Power<Elem>::sqrt_of(r);
    });
    else if (of.quarters == 2) each(root_of);
    else if (of.quarters) each([&](Value x, Value& root) { return root_of(x, root), root * root; });
    else each([&](Value x, Value& root) {
        root_of(x, root);
        return Power<Elem>::raise_of(x, -of.power);
    });
}

// The value nearest to 0 between low and high; 0 where that is none.
template <class Value> DEVICE Value nearest(Value low, Value high) {
    const Value r = fmax(fmin(high, Value(0)), low);
    return fabs(r) < INFINITY ? r : Value(0);
}

// r of some rows from `top` on, those beyond the ends made r.
template <class Elem, int Many, int All, class Site>
DEVICE void settle(Row<Elem, Many> (&rows)[All], acc_t<Elem> (&r)[Many], const Site& site, int top,
                   int height) {
    const bool is_inside = top >= 0 && top + All <= height;
    if (!is_inside) {
        UNROLL for (int i = All - 2; i >= 0; --i) if (top + i < 0) rows[i] = rows[i + 1];
        UNROLL for (int i = 1; i < All; ++i) if (top + i >= height) rows[i] = rows[i - 1];
    }
    site.nearest_of(r, rows);
    if (!is_inside) UNROLL for (int i = 0; i < All; ++i)
        if (unsigned(top + i) >= unsigned(height)) rows[i].set(Vec<Elem, Many>::of(r));
}

// sum[i] of the squares of rows[i] … rows[i + 2 * half], summed along w too.
template <bool IsFull, int Most, class Elem, int Many, int Count, class Site>
DEVICE void spread(acc_t<Elem> (&sum)[Count][Many],
                   const Row<Elem, Many> (&rows)[Count + 2 * Reach<Most>::half], const Site& site,
                   int window) {
    constexpr int All = Count + 2 * Reach<Most>::half;
    UNROLL for (int j = 0; j < Many; ++j) {
        acc_t<Elem> q[All], s[Count];
        UNROLL for (int i = 0; i < All; ++i) q[i] = rows[i][j] * rows[i][j];
        window_of<Most, true, IsFull>(s, q, window);
        UNROLL for (int i = 0; i < Count; ++i) sum[i][j] = s[i];
    }
    site.template across<Most, true, IsFull>(sum, window);
}

// The same of (x - mean)^2, with m = mean - r given: S2 - 2 m S1 + n m^2 of the sums of z and z^2 over the n
// cells that are there. rest: the sum of x - mean. The row of sum[0] is h.
template <bool IsFull, int Most, class Elem, int Many, int Count, class Site>
DEVICE void spread(acc_t<Elem> (&sum)[Count][Many], acc_t<Elem> (&rest)[Count][Many],
                   const acc_t<Elem> (&m)[Count][Many], const acc_t<Elem> (&r)[Many],
                   const Row<Elem, Many> (&rows)[Count + 2 * Reach<Most>::half], const Site& site, int h,
                   int height, int window) {
    using A = acc_t<Elem>;
    constexpr int All = Count + 2 * Reach<Most>::half;
    A plain[Count][Many], wide[Many], tall[Count];
    UNROLL for (int j = 0; j < Many; ++j) {
        A z[All], q[All], s[Count];
        UNROLL for (int i = 0; i < All; ++i) z[i] = rows[i][j] - r[j], q[i] = z[i] * z[i];
        window_of<Most, true, IsFull>(s, q, window);
        UNROLL for (int i = 0; i < Count; ++i) sum[i][j] = s[i];
        window_of<Most, true, IsFull>(s, z, window);
        UNROLL for (int i = 0; i < Count; ++i) plain[i][j] = s[i];
        wide[j] = site.wide(j, window);
    }
    site.template across<Most, true, IsFull>(sum, window);
    site.template across<Most, true, IsFull>(plain, window);
    UNROLL for (int i = 0; i < Count; ++i) tall[i] = window;
    if (h < window || h + Count + window > height) UNROLL for (int i = 0; i < Count; ++i)
        tall[i] = span_of(h + i, height, window);
    UNROLL for (int i = 0; i < Count; ++i) UNROLL for (int j = 0; j < Many; ++j) {
        rest[i][j] = plain[i][j] - tall[i] * wide[j] * m[i][j];
        const A s = sum[i][j] - m[i][j] * (rest[i][j] + plain[i][j]);            // 0 may be a bit less
        sum[i][j] = sum[i][j] == INFINITY ? sum[i][j] : fabs(s);                 // inf - inf
    }
}

}  // namespace cydnn
