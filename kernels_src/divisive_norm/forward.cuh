// Divisive normalization by threads that walk down rows. `Site` is that of planes.cuh or of channels.cuh.
#pragma once
#include "walk.cuh"

namespace cydnn {

// Steps are strides of h. rows: x of h - half … h + Strip + half.
template <bool IsFull, int Most, int Strip, bool Means, int Many, class Elem, class Site>
DEVICE void forward(const Site& site, const Elem* x, const Elem* means, Elem* y, i64 x_step, i64 means_step,
                    i64 y_step, const Work<Elem>& of) {
    using A = acc_t<Elem>;
    constexpr int half = Reach<Most>::half, All = Strip + 2 * half;
    const int last = min(of.height, site.first + of.per);
    y += site.first * y_step;
    Row<Elem, Many> rows[All];
    UNROLL for (int i = 0; i < 2 * half; ++i)
        rows[i] = Row<Elem, Many>::at(x, x_step, site.first - half + i, of.height);
    NO_UNROLL for (int k = 0; k < of.per; k += Strip, y += Strip * y_step) {
        const int h = site.first + k;
        const bool is_whole = of.is_near && h + half + Strip <= of.height && h + Strip <= last;
        load_rows<2 * half, Strip>(rows, x, x_step, h + half, of.height, is_whole);
        A sum[Strip][Many], unused[Strip][Many];
        if constexpr (Means) {
            Row<Elem, Many> middle[Strip];
            A m[Strip][Many], rest[Strip][Many], r[Many];
            load_rows<0, Strip>(middle, means, means_step, h, of.height, is_whole);
            settle(rows, r, site, h - half, of.height);
            UNROLL for (int i = 0; i < Strip; ++i)
                UNROLL for (int j = 0; j < Many; ++j) m[i][j] = middle[i][j] - r[j];
            spread<IsFull, Most>(sum, rest, m, r, rows, site, h, of.height, of.window);
        } else {
            spread<IsFull, Most>(sum, rows, site, of.window);
        }
        of.finish(sum);
        raise(of.power, sum, unused);
        UNROLL for (int i = 0; i < Strip; ++i)
            UNROLL for (int j = 0; j < Many; ++j) sum[i][j] *= rows[half + i][j];
        if (site.is_useful) of.store(y, y_step, sum, is_whole, last - h);
        UNROLL for (int i = 0; i < 2 * half; ++i) rows[i] = rows[i + Strip];
    }
}

}  // namespace cydnn
