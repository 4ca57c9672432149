// Transforms of one dimension: a block transforms 16 signals at once, side by side in shared memory.
//
//   Z[f] = sum over u of z[u] * exp(-2 pi i u f / n)     n = a product of radices 2, 3, 4, 5, 8; n <= 256
//
//   Complex<Real>                            re, im
//   FftTables<Real>                          roots of unity, and the order in which results come out
//   fft_tables(tables, n, stages, …)         fills them; threads must meet before they read
//   fft_inside(tables, tile, n, stages)      signals in shared memory, tile[position * FFT_PITCH + lane]
//   fft_through(tables, tile, n, stages, load, store)
//                                            load(u) gives z[u] in the first stage, the last one calls
//                                            store(position, Z); the tile is used between
//   tables.order[position], tables.place[f]  which frequency stands at a position, and the other way round
//
// Stages work in place (decimation in frequency): a stage of radix r and parts of m elements takes elements
// j, j + m, … j + (r-1)m of each run of r*m, transforms them, and multiplies the p-th result by the root
// exp(-2 pi i p j / (r*m)). So results come out with the digits of their frequency reversed. The inverse
// transform is the same with re and im exchanged on both sides.
//
// A thread serves one signal (threadIdx.x % 16), so a half-warp reads 16 neighbours: no bank conflicts.
#pragma once
#include "lib/math.cuh"

namespace cydnn {

constexpr int FFT_THREADS = 128, FFT_LANES = 16, FFT_PITCH = 17, FFT_STAGES = 6, FFT_MOST = 256;

template <class Real> struct alignas(2 * sizeof(Real)) Complex {
    Real re, im;
};
template <class Real> DEVICE Complex<Real> operator+(Complex<Real> a, Complex<Real> b) {
    return {a.re + b.re, a.im + b.im};
}
template <class Real> DEVICE Complex<Real> operator-(Complex<Real> a, Complex<Real> b) {
    return {a.re - b.re, a.im - b.im};
}
template <class Real> DEVICE Complex<Real> operator*(Complex<Real> a, Complex<Real> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class Real> DEVICE Complex<Real> scaled(Complex<Real> a, Real by) { return {a.re * by, a.im * by}; }
template <class Real> DEVICE Complex<Real> exchanged(Complex<Real> a) { return {a.im, a.re}; }
// a * -i
template <class Real> DEVICE Complex<Real> turned(Complex<Real> a) { return {a.im, -a.re}; }

template <class Real> struct FftTables {
    Complex<Real> root[FFT_MOST];
    short order[FFT_MOST], place[FFT_MOST];
    int radix[FFT_STAGES];
    FastDiv part[FFT_STAGES];                                  // elements of a part behind the stage
};

DEVICE void root_of(float turn, float& sine, float& cosine) { sincospif(turn, &sine, &cosine); }
DEVICE void root_of(double turn, double& sine, double& cosine) { sincospi(turn, &sine, &cosine); }

template <class Real>
DEVICE void fft_tables(FftTables<Real>& tables, int n, int stages, const Array<int, FFT_STAGES>& radix,
                       const Array<FastDiv, FFT_STAGES>& part) {
    UNROLL for (int s = 0; s < FFT_STAGES; ++s)
        if (threadIdx.x == s) tables.radix[s] = radix[s], tables.part[s] = part[s];
    __syncthreads();
    NO_UNROLL for (int i = threadIdx.x; i < n; i += FFT_THREADS) {
        Real sine, cosine;
        root_of(Real(-2 * i) / Real(n), sine, cosine);
        tables.root[i] = {cosine, sine};
        unsigned rest = i, digit;
        int f = 0, weight = 1;
        NO_UNROLL for (int s = 0; s < stages; ++s) {
            digit = tables.part[s].divmod(rest, rest);
            f += int(digit) * weight, weight *= tables.radix[s];
        }
        tables.order[i] = short(f), tables.place[f] = short(i);
    }
}

// ---- Transforms of a few elements in registers ----

template <int R> struct Few;
template <> struct Few<2> {
    template <class Real> static DEVICE void run(Complex<Real> (&v)[2]) {
        const Complex<Real> a = v[0], b = v[1];
        v[0] = a + b, v[1] = a - b;
    }
};
template <> struct Few<3> {
    template <class Real> static DEVICE void run(Complex<Real> (&v)[3]) {
        const Complex<Real> sum = v[1] + v[2];
        const Complex<Real> side = scaled(turned(v[1] - v[2]), Real(0.86602540378443864676));
        const Complex<Real> middle = v[0] - scaled(sum, Real(0.5));
        v[0] = v[0] + sum, v[1] = middle + side, v[2] = middle - side;
    }
};
template <> struct Few<4> {
    template <class Real> static DEVICE void run(Complex<Real> (&v)[4]) {
        const Complex<Real> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned(v[1] - v[3]);
        v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
    }
};
template <> struct Few<5> {
    template <class Real> static DEVICE void run(Complex<Real> (&v)[5]) {
        const Real c1 = Real(0.30901699437494742410), c2 = Real(-0.80901699437494742410);
        const Real s1 = Real(0.95105651629515357212), s2 = Real(0.58778525229247312917);
        const Complex<Real> a = v[1] + v[4], b = v[2] + v[3];
        const Complex<Real> c = turned(v[1] - v[4]), d = turned(v[2] - v[3]);
        const Complex<Real> near = v[0] + scaled(a, c1) + scaled(b, c2);
        const Complex<Real> far = v[0] + scaled(a, c2) + scaled(b, c1);
        const Complex<Real> near_side = scaled(c, s1) + scaled(d, s2);
        const Complex<Real> far_side = scaled(c, s2) - scaled(d, s1);
        v[0] = v[0] + a + b;
        v[1] = near + near_side, v[4] = near - near_side;
        v[2] = far + far_side, v[3] = far - far_side;
    }
};
template <> struct Few<8> {
    template <class Real> static DEVICE void run(Complex<Real> (&v)[8]) {
        const Real half = Real(0.70710678118654752440);
        Complex<Real> even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
        Few<4>::run(even), Few<4>::run(odd);
        odd[1] = scaled(odd[1] + turned(odd[1]), half);            // times (1 - i) / sqrt 2
        odd[2] = turned(odd[2]);
        odd[3] = scaled(turned(odd[3]) - odd[3], half);            // times (-1 - i) / sqrt 2
        UNROLL for (int i = 0; i < 4; ++i) v[i] = even[i] + odd[i], v[i + 4] = even[i] - odd[i];
    }
};

// ---- Stages ----

struct Nowhere {};                                                 // signals that stay in shared memory

template <int R, class Real, class Load, class Store>
DEVICE void fft_stage(const FftTables<Real>& tables, Complex<Real>* tile, int n, int stage, bool is_first,
                      bool is_last, Load& load, Store& store) {
    constexpr bool inside = sizeof(Load) == sizeof(Nowhere);
    const int lane = threadIdx.x % FFT_LANES, count = n / R;
    const FastDiv part = tables.part[stage];
    const int m = part.by, scale = n / (R * m);
    NO_UNROLL for (int t = threadIdx.x / FFT_LANES; t < count; t += FFT_THREADS / FFT_LANES) {
        unsigned j;
        const int first = int(part.divmod(t, j)) * R * m + int(j);
        Complex<Real> v[R];
        auto at = [&](int i) { return (first + i * m) * FFT_PITCH + lane; };
        if constexpr (inside) {
            UNROLL for (int q = 0; q < R; ++q) v[q] = tile[at(q)];
        } else if (is_first) {
            UNROLL for (int q = 0; q < R; ++q) v[q] = load(first + q * m);
        } else {
            UNROLL for (int q = 0; q < R; ++q) v[q] = tile[at(q)];
        }
        Few<R>::run(v);
        if constexpr (!inside)
            if (is_last) {                                         // m is 1: no roots
                UNROLL for (int p = 0; p < R; ++p) store(first + p, v[p]);
                continue;
            }
        tile[at(0)] = v[0];
        UNROLL for (int p = 1; p < R; ++p) tile[at(p)] = v[p] * tables.root[p * int(j) * scale];
    }
}

template <class Real, class Load, class Store>
DEVICE void fft_through(const FftTables<Real>& tables, Complex<Real>* tile, int n, int stages, Load load,
                        Store store) {
    NO_UNROLL for (int s = 0; s < stages; ++s) {
        const int radix = tables.radix[s];
        const bool first = s == 0, last = s == stages - 1;
        if (radix == 8) fft_stage<8>(tables, tile, n, s, first, last, load, store);
        else if (radix == 5) fft_stage<5>(tables, tile, n, s, first, last, load, store);
        else if (radix == 4) fft_stage<4>(tables, tile, n, s, first, last, load, store);
        else if (radix == 3) fft_stage<3>(tables, tile, n, s, first, last, load, store);
        else fft_stage<2>(tables, tile, n, s, first, last, load, store);
        if (!last) __syncthreads();
    }
}

template <class Real>
DEVICE void fft_inside(const FftTables<Real>& tables, Complex<Real>* tile, int n, int stages) {
    fft_through(tables, tile, n, stages, Nowhere{}, Nowhere{});
    __syncthreads();
}

// ---- Windows of a tensor ----

// Which signals a block of conv_fft_rows or conv_fft_store has: 16 planes (one channel of one tile of one
// image), and two neighbouring rows of each; what it needs to find them in memory.
//
//   plane = outer * inner + i       i < live: it exists. channel_inner: i is the channel, outer the item;
//                                   else the other way round.   item = (image, tile d, tile h, tile w)
//   row   = (d, pair of h)          of the window; its pixel u is that of the tensor at first + u
//
// In each dim the window of tile t begins at t * step + base.
struct FftWindows {
    int inner, live, channel_inner, planes, rows_h;
    Array<int, 3> step, base, size;
    i64 x_n, x_c;
    Array<i64, 3> x_s;
};

struct FftLine {
    i64 off;                                                       // of pixel u = 0 from the tensor's start
    int begin, end;                                                // pixels u of the window that it has
};

DEVICE FftLine fft_line(const FftWindows& w, const FastDiv& inner, const Array<FastDiv, 3>& tiles,
                        unsigned plane, int d, int h, int width) {
    FftLine line = {0, 0, 0};
    unsigned i, t[3];
    const unsigned outer = inner.divmod(plane, i);
    if (plane >= unsigned(w.planes) || int(i) >= w.live || h >= w.rows_h) return line;
    unsigned item = w.channel_inner ? outer : i;
    const unsigned channel = w.channel_inner ? i : outer;
    UNROLL for (int k = 2; k >= 0; --k) item = tiles[k].divmod(item, t[k]);
    int z[3];
    UNROLL for (int k = 0; k < 3; ++k) z[k] = int(t[k]) * w.step[k] + w.base[k];
    z[0] += d, z[1] += h;
    if (unsigned(z[0]) >= unsigned(w.size[0]) || unsigned(z[1]) >= unsigned(w.size[1])) return line;
    line.off = item * w.x_n + channel * w.x_c + z[0] * w.x_s[0] + z[1] * w.x_s[1] + z[2] * w.x_s[2];
    line.begin = max(0, -z[2]), line.end = max(0, min(width, w.size[2] - z[2]));
    return line;
}

}  // namespace cydnn
