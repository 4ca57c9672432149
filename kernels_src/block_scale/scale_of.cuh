// The scale of a block by its largest size.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

DEVICE float rounded_up(float x) { return x; }
DEVICE float rounded_up(double x) { return __double2float_ru(x); }

// Numbers of a type of scales: so many bits of mantissa from `normal` on, and multiples of `step` below;
// `most`: the largest value of what is scaled.
struct Scales {
    float most;
    int mantissa;
    float normal, step, least, highest;

    // The least of them with which nothing is above `most`. A quotient that is above a number of the grid is
    // not rounded down to it: no `most` has a mantissa of 2 or more, which would take half a last place.
    template <class Math> DEVICE float of(Math top) const {
        const Math exact = top / Math(most);
        const float quotient = mantissa < 23 ? rounded_up(exact) : float(exact);
        float scale = quotient;
        if (mantissa < 23 && quotient < highest) {
            const unsigned cut = (1u << (23 - mantissa)) - 1;
            scale = quotient < normal ? ceilf(rounded_up(top / (Math(most) * Math(step)))) * step
                                      : __uint_as_float(__float_as_uint(quotient) + cut & ~cut);
        }
        return scale < least ? least : scale > highest ? highest : scale;
    }
};

// The larger of two sizes; a NaN stays.
template <class Math> DEVICE Math larger(Math top, Math size) {
    return size > top || size != size ? size : top;
}

}  // namespace cydnn
