// What the sliding depthwise kernels share. A unit is half a warp: 16 threads with two channels each, which
// walk down a strip of an image of their own. Rows come to shared memory through a ring of the unit's
// (cp.async), several steps ahead of their use; what is outside the image is zero there.
#pragma once
#include "lib/epilogue.cuh"
#include "lib/math.cuh"
#include "lib/mma.cuh"

namespace cydnn {

constexpr int PAIR = 2, LANES = 16, UNITS = 8, WIDE = PAIR * LANES;

template <bool Value> struct Is { static constexpr bool value = Value; };

// Channels are neighbours: off and off + 1.
DEVICE void fuse_epilogue(float (&v)[2], i64 off, int col) {
    asm volatile("// @fuse.epilogue v=%0,%1 off=%2 col=%3;" : "+f"(v[0]), "+f"(v[1]) : "l"(off), "r"(col));
}

// The filters of 32 channels in shared memory, as [tap][channel] in f32; channels beyond `channels` are zero.
// Whether one that this thread brought times zero is not zero: it is infinite or no number.
template <int TAPS, class Elem>
DEVICE bool stage_filters(float* filters, const Elem* w, int first, int channels, i64 w_c,
                          const Array<i64, 2>& w_s) {
    bool is_odd = false;
    for (int i = threadIdx.x; i < TAPS * TAPS * WIDE; i += LANES * UNITS) {
        const int c = first + i % WIDE, r = i / WIDE / TAPS, s = i / WIDE % TAPS;
        const float tap = c < channels ? to_acc(w[c * w_c + r * w_s[0] + s * w_s[1]]) : 0.f;
        filters[i] = tap, is_odd |= !(fabsf(tap) <= 3.402823466e38f);
    }
    return is_odd;
}

// A unit's window on an image: COUNT neighbouring pixels of a row, 32 channels of each. Row 0 is `top` rows
// below the image's first.
template <class Elem, int COUNT> struct Window {
    static constexpr int CHUNKS = WIDE * int(sizeof(Elem)) / 16, EACH = LANES / CHUNKS;  // pixels at a time
    static constexpr int BYTES = COUNT * WIDE * int(sizeof(Elem));                          // of a row

    const Elem* from;                                                // this lane's first 16 bytes of row 0
    i64 row_step, pixel_step;                                        // the latter of EACH pixels
    int top, height, lane;
    unsigned valid;                                                  // bit k: this lane's k-th copy is inside

    DEVICE Window(const Elem* image, int top, int left, int height, int width, int first, int channels,
                  const Array<i64, 2>& steps)
        : row_step(steps[0]), pixel_step(steps[1] * EACH), top(top), height(height),
          lane(threadIdx.x % LANES), valid(0) {
        const int pixel = left + lane / CHUNKS, channel = first + lane % CHUNKS * (16 / int(sizeof(Elem)));
        from = image + top * steps[0] + pixel * steps[1] + channel;
        UNROLL for (int k = 0; k * EACH < COUNT; ++k)
            valid |= unsigned(unsigned(pixel + k * EACH) < unsigned(width) && channel < channels) << k;
    }

    DEVICE bool is_inside(int row) const { return unsigned(top + row) < unsigned(height); }

    // Begins to bring a row to shared memory; rows outside are zero.
    DEVICE void bring(int row, unsigned to) const {
        const bool inside = is_inside(row);
        const Elem* p = from + row * row_step;
        to += lane * 16;
        UNROLL for (int k = 0; k * EACH < COUNT; ++k)
            if (k * EACH + EACH <= COUNT || lane / CHUNKS + k * EACH < COUNT)
                cp_async_if<16>(inside && valid >> k & 1, to + k * LANES * 16, p + k * pixel_step);
    }
};

// The two channels of this thread in COUNT pixels of a row in shared memory.
template <class Elem, int COUNT> DEVICE void read_row(const char* row, float (&values)[COUNT][PAIR]) {
    const Elem* p = reinterpret_cast<const Elem*>(row) + threadIdx.x % LANES * PAIR;
    UNROLL for (int i = 0; i < COUNT; ++i) Vec<Elem, PAIR>::load(p + i * WIDE).get(values[i]);
}

// Bit i: pixel left + i is inside.
template <int COUNT> DEVICE unsigned columns_inside(int left, int width) {
    unsigned columns = 0;
    UNROLL for (int i = 0; i < COUNT; ++i) columns |= unsigned(unsigned(left + i) < unsigned(width)) << i;
    return columns;
}

// alpha * sums + beta * y, fused code, and the store of a pair.
template <class Elem>
DEVICE void store_pair(Elem* y, i64 off, float (&v)[PAIR], float alpha, float beta, int channel) {
    float old[PAIR] = {};
    if (beta != 0.f) Vec<Elem, PAIR>::load(y + off).get(old);
    UNROLL for (int c = 0; c < PAIR; ++c) v[c] = beta != 0.f ? alpha * v[c] + beta * old[c] : alpha * v[c];
    fuse_epilogue(v, off, channel);
    Vec<Elem, PAIR>::of(v).store(y + off);
}

}  // namespace cydnn
