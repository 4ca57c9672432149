// Where a point of a grid is in an image: the cell between four pixels, and how far into it.
//
//   Point p(gx, gy, width, height)    near: one of the four may be inside; x, y: the upper left one, from -1
//                                     on; fx, fy: fractions
//   p.inside(x, y)                    is a pixel of the image
//   Places                            which item of a launch has which point and which channels
//
// -1 and 1 are the centres of the corner pixels: px = (gx + 1) * (width - 1) / 2. It is computed in f64,
// whatever the type: next to a pixel's centre a rounding would choose the other cell, and slopes are others
// there.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

DEVICE double wide(f16 x) { return double(__half2float(x)); }
DEVICE double wide(bf16 x) { return double(__bfloat162float(x)); }
DEVICE double wide(float x) { return double(x); }
DEVICE double wide(double x) { return x; }

template <class Value> struct Point {
    int x, y, width, height;
    Value fx, fy;
    bool near;

    DEVICE Point(double gx, double gy, int width, int height) : width(width), height(height) {
        const double px = __dmul_rn(__dadd_rn(gx, 1.0), (width - 1) / 2.0);
        const double py = __dmul_rn(__dadd_rn(gy, 1.0), (height - 1) / 2.0);
        near = px >= -1 && px < width && py >= -1 && py < height;            // not where one is NaN
        x = near ? int(floor(px)) : 0, y = near ? int(floor(py)) : 0;
        fx = near ? Value(px - x) : Value(0), fy = near ? Value(py - y) : Value(0);
    }
    DEVICE bool inside(int right, int below) const {
        return near && unsigned(x + right) < unsigned(width) && unsigned(y + below) < unsigned(height);
    }
    DEVICE Value weight(int right, int below) const { return (right ? fx : 1 - fx) * (below ? fy : 1 - fy); }
};

// Items are `places` (points or pixels of all images) times chunks of channels, of which chunk q has q,
// q + chunks, q + 2 * chunks, …; `inner` is how many there are of what follows each other.
struct Places { unsigned place, chunk; };
DEVICE Places place_of(unsigned item, FastDiv inner, int channels_inner) {
    unsigned rest;
    const unsigned outer = inner.divmod(item, rest);
    return channels_inner ? Places{outer, rest} : Places{rest, outer};
}

}  // namespace cydnn
