// Gradient of divisive normalization by threads that walk down rows. `Site` is that of planes.cuh or of
// channels.cuh.
#pragma once
#include "walk.cuh"

namespace cydnn {

// Where the operands of a thread begin, and their strides of h. means and dmeans may be null.
template <class Elem> struct Operands {
    const Elem *x, *means, *dy;
    Elem *dx, *dmeans;
    i64 x_step, means_step, dy_step, dx_step, dmeans_step;
};

// slope * t times the sums of x - mean, for those rows from h on, the last ones of t, that are from first to
// last.
template <class Elem, int All, int Count, int Many>
DEVICE void put_dmeans(Elem* dmeans, i64 step, const acc_t<Elem> (&t)[All][Many],
                       const acc_t<Elem> (&rest)[Count][Many], int h, int first, int last,
                       const Work<Elem>& of) {
    UNROLL for (int i = 0; i < Count; ++i) {
        acc_t<Elem> out[Many];
        UNROLL for (int j = 0; j < Many; ++j) out[j] = of.slope * (t[All - Count + i][j] * rest[i][j]);
        if (unsigned(h + i - first) < unsigned(last - first))
            put(dmeans + (h + i) * step, out, of.alpha, of.beta);
    }
}

// sum[i] of t[i] … t[i + 2 * half], summed along w too, in the cells whose windows have this one.
template <bool IsFull, int Most, int Count, int Many, class Value, class Site>
DEVICE void gather(Value (&sum)[Count][Many], const Value (&t)[Count + 2 * Reach<Most>::half][Many],
                   const Site& site, int window) {
    UNROLL for (int j = 0; j < Many; ++j) {
        Value q[Count + 2 * Reach<Most>::half], s[Count];
        UNROLL for (int i = 0; i < Count + 2 * Reach<Most>::half; ++i) q[i] = t[i][j];
        window_of<Most, false, IsFull>(s, q, window);
        UNROLL for (int i = 0; i < Count; ++i) sum[i][j] = s[i];
    }
    site.template across<Most, false, IsFull>(sum, window);
}

// At row h a thread holds, of its columns,
//   rows x                             of h        … h + 2 * half + Strip
//   own  dy * s^-power                 of h        … h + half + Strip
//   t    lift * dy * x * s^-(power+1)  of h - half … h + half + Strip
//   u    t * (mean - r)                of the same
// and makes dx of h … h + Strip. All begin as 0 some strips before the first row.
template <bool IsFull, int Most, int Strip, bool Means, int Many, class Elem, class Site>
DEVICE void backward(const Site& site, const Operands<Elem>& at, const Work<Elem>& of) {
    using A = acc_t<Elem>;
    constexpr int half = Reach<Most>::half, All = Strip + 2 * half;
    constexpr int Lead = (2 * half + Strip - 1) / Strip * Strip;
    const int first = site.first, last = min(of.height, first + of.per);
    Row<Elem, Many> rows[All];
    A own[Strip + half][Many], t[All][Many], u[All][Many], r[Many];
    UNROLL for (int i = 0; i < All; ++i) {
        if (i < 2 * half) rows[i] = Row<Elem, Many>::at(at.x, at.x_step, first - Lead + i, of.height);
        UNROLL for (int j = 0; j < Many; ++j) t[i][j] = u[i][j] = r[j] = 0;
    }
    UNROLL for (int i = 0; i < half; ++i) UNROLL for (int j = 0; j < Many; ++j) own[i][j] = 0;

    NO_UNROLL for (int k = -Lead; k < of.per; k += Strip) {
        const int h = first + k;
        const bool is_whole = of.is_near && k >= 0 && h + 2 * half + Strip <= of.height && h + Strip <= last;
        Row<Elem, Many> gradient[Strip];
        load_rows<2 * half, Strip>(rows, at.x, at.x_step, h + 2 * half, of.height, is_whole);
        load_rows<0, Strip>(gradient, at.dy, at.dy_step, h + half, of.height, is_whole);
        A sum[Strip][Many], root[Strip][Many], m[Strip][Many], rest[Strip][Many];
        if constexpr (Means) {
            Row<Elem, Many> middle[Strip];
            load_rows<0, Strip>(middle, at.means, at.means_step, h + half, at.means ? of.height : 0,
                                is_whole && at.means);
            A before[Many];
            UNROLL for (int j = 0; j < Many; ++j) before[j] = r[j];
            settle(rows, r, site, h, of.height);
            UNROLL for (int j = 0; j < Many; ++j) {
                UNROLL for (int i = 0; i < Strip; ++i) m[i][j] = middle[i][j] - r[j];
                UNROLL for (int i = 0; i < 2 * half; ++i) u[i][j] += t[i][j] * (before[j] - r[j]);
            }
            spread<IsFull, Most>(sum, rest, m, r, rows, site, h + half, of.height, of.window);
        } else {
            spread<IsFull, Most>(sum, rows, site, of.window);
        }
        of.finish(sum);
        raise<Strip * Many * (1 + Means) < 16>(of.power, sum, root); // of more: too many registers
        UNROLL for (int i = 0; i < Strip; ++i) UNROLL for (int j = 0; j < Many; ++j) {
            own[half + i][j] = gradient[i][j] * sum[i][j];
            t[2 * half + i][j] = term_of(own[half + i][j], rows[half + i][j], root[i][j], of.lift);
        }
        if (h < 0 || h + half + Strip > of.height) UNROLL for (int i = 0; i < Strip; ++i)
            if (unsigned(h + half + i) >= unsigned(of.height))
                UNROLL for (int j = 0; j < Many; ++j) t[2 * half + i][j] = 0;
        gather<IsFull, Most>(sum, t, site, of.window);
        if constexpr (Means) {
            UNROLL for (int i = 0; i < Strip; ++i) UNROLL for (int j = 0; j < Many; ++j) {
                u[2 * half + i][j] = t[2 * half + i][j] * m[i][j];
            }
            if (at.dmeans && site.is_useful)
                put_dmeans(at.dmeans, at.dmeans_step, t, rest, h + half, first, last, of);
            gather<IsFull, Most>(m, u, site, of.window);
        }
        UNROLL for (int i = 0; i < Strip; ++i) UNROLL for (int j = 0; j < Many; ++j) {
            if constexpr (Means) sum[i][j] = (rows[i][j] - r[j]) * sum[i][j] - m[i][j];
            else sum[i][j] *= rows[i][j];
            sum[i][j] = own[i][j] - of.slope * sum[i][j];
        }
        if (site.is_useful && k >= 0)
            of.store(at.dx + h * at.dx_step, at.dx_step, sum, is_whole, last - h);
        UNROLL for (int j = 0; j < Many; ++j) {
            UNROLL for (int i = 0; i < half; ++i) own[i][j] = own[i + Strip][j];
            UNROLL for (int i = 0; i < 2 * half; ++i) t[i][j] = t[i + Strip][j], u[i][j] = u[i + Strip][j];
        }
        UNROLL for (int i = 0; i < 2 * half; ++i) rows[i] = rows[i + Strip];
    }
}

}  // namespace cydnn
