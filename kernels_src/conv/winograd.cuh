// Winograd's minimal filtering: Out x Out outputs of a 3 x 3 correlation from (Out + 2)^2 products.
//
//   y = A^T [(G g G^T) * (B^T d B)] A         g the filter, d the tile of the input, * element by element
//
//   Winograd<Out>::input(v)       v = B^T v, in place       Out + 2 values
//   Winograd<Out>::filter(g, u)   u = G g                   3 values to Out + 2
//   Winograd<Out>::output(m, y)   y = A^T m                 Out + 2 values to Out
//
// The filter's gradient is a correlation likewise, 3 x 3 outputs of a "filter" of Out x Out gradients:
//
//   dw = A^T [(G dy G^T) * (B^T d B)] A       B as above, G and A others
//
//   Winograd<Out>::gradient(dy, u)   u = G dy               Out values to Out + 2
//   Winograd<Out>::taps(m, w)        w = A^T m              Out + 2 values to 3
//
// Each is applied to the columns, then to the rows. The matrices belong to the points 0, 1, -1 (and 2, -2
// where Out is 4) and infinity; cydnn/engines/conv/winograd.py has them as numbers, for the error bound.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

enum WinogradLanes { by_tiles, by_channels };            // what is closest in an image

template <int Out> struct Winograd;

template <> struct Winograd<2> {
    static constexpr int out = 2, in = 4, points = 16;
    static DEVICE void input(float (&v)[4]) {
        const float b = v[1], c = v[2];
        v[0] = v[0] - c, v[1] = b + c, v[2] = c - b, v[3] = b - v[3];
    }
    static DEVICE void filter(const float (&g)[3], float (&u)[4]) {
        const float even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
        u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
    }
    static DEVICE void output(const float (&m)[4], float (&y)[2]) {
        y[0] = m[0] + m[1] + m[2], y[1] = m[1] - m[2] - m[3];
    }
    static DEVICE void gradient(const float (&g)[2], float (&u)[4]) {
        u[0] = g[0], u[1] = 0.5f * (g[0] + g[1]), u[2] = 0.5f * (g[0] - g[1]), u[3] = g[1];
    }
    static DEVICE void taps(const float (&m)[4], float (&w)[3]) {
        w[0] = m[0] + m[1] + m[2], w[1] = m[1] - m[2], w[2] = m[1] + m[2] - m[3];
    }
};

template <> struct Winograd<4> {
    static constexpr int out = 4, in = 6, points = 36;
    static DEVICE void input(float (&v)[6]) {
        const float a = v[4] - 4.f * v[2], b = v[3] - 4.f * v[1];           // points 1, -1
        const float c = v[4] - v[2], d = 2.f * (v[3] - v[1]);               // points 2, -2
        v[0] = 4.f * v[0] - 5.f * v[2] + v[4], v[5] = 4.f * v[1] - 5.f * v[3] + v[5];
        v[1] = a + b, v[2] = a - b, v[3] = c + d, v[4] = c - d;
    }
    static DEVICE void filter(const float (&g)[3], float (&u)[6]) {
        const float even = (-1.f / 6.f) * (g[0] + g[2]), odd = (-1.f / 6.f) * g[1];
        const float far = (1.f / 24.f) * g[0] + (1.f / 6.f) * g[2], half = (1.f / 12.f) * g[1];
        u[0] = 0.25f * g[0], u[5] = g[2];
        u[1] = even + odd, u[2] = even - odd, u[3] = far + half, u[4] = far - half;
    }
    static DEVICE void output(const float (&m)[6], float (&y)[4]) {
        const float s = m[1] + m[2], d = m[1] - m[2], far = m[3] + m[4], apart = m[3] - m[4];
        y[0] = m[0] + s + far, y[1] = d + 2.f * apart, y[2] = s + 4.f * far, y[3] = d + 8.f * apart + m[5];
    }
    static DEVICE void gradient(const float (&g)[4], float (&u)[6]) {
        const float even = (-1.f / 6.f) * (g[0] + g[2]), odd = (-1.f / 6.f) * (g[1] + g[3]);
        const float far = (1.f / 24.f) * g[0] + (1.f / 6.f) * g[2];
        const float apart = (1.f / 12.f) * g[1] + (1.f / 3.f) * g[3];
        u[0] = 0.25f * g[0], u[5] = g[3];
        u[1] = even + odd, u[2] = even - odd, u[3] = far + apart, u[4] = far - apart;
    }
    static DEVICE void taps(const float (&m)[6], float (&w)[3]) {
        const float s = m[1] + m[2], far = m[3] + m[4];
        w[0] = m[0] + s + far, w[1] = m[1] - m[2] + 2.f * (m[3] - m[4]), w[2] = s + 4.f * far + m[5];
    }
};

}  // namespace cydnn
