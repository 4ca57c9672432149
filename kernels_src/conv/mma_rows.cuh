// Pixels of an implicit GEMM: which input pixel a row's tap reads, and whether it exists.
//
// In each spatial dim (0 depth, 1 height, 2 width) tap t of output o reads input o*stride + first + t*step.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

struct Window {
    int size[3], stride[3], first[3], step[3], taps[3];
};

// What a row needs in the main loop. offset: of its tap (0, 0, 0), in 16-byte chunks (may lie outside
// the tensor). mask: bit t of each dim's field says that tap t is inside; the fields are width,
// height, depth, from bit 0. A depth of one tap has no field (so 16 x 16 filters fit in 32 bits):
// where it is outside nothing is inside.
struct Row {
    int offset;
    unsigned mask;
};

// The coordinates of an output pixel: (image, depth, height, width). `out` are the sizes of the last three.
DEVICE void pixel_of(unsigned pixel, const FastDiv (&out)[3], int (&at)[4]) {
    unsigned rest[3];
    at[0] = int(out[0].divmod(out[1].divmod(out[2].divmod(pixel, rest[2]), rest[1]), rest[0]));
    UNROLL for (int d = 0; d < 3; ++d) at[d + 1] = int(rest[d]);
}

DEVICE Row row_of(const Window& window, const int (&at)[4], int pixel_chunks) {
    int offset = at[0], shift = 0;
    unsigned mask = 0;
    UNROLL for (int d = 0; d < 3; ++d)
        offset = offset * window.size[d] + at[d + 1] * window.stride[d] + window.first[d];
    UNROLL for (int d = 2; d >= 0; --d) {
        const int start = at[d + 1] * window.stride[d] + window.first[d];
        if (d == 0 && window.taps[0] == 1) {
            if (unsigned(start) >= unsigned(window.size[0])) mask = 0;
            break;
        }
        NO_UNROLL for (int t = 0; t < window.taps[d]; ++t)
            mask |= unsigned(unsigned(start + t * window.step[d]) < unsigned(window.size[d])) << (shift + t);
        shift += window.taps[d];
    }
    return {offset * pixel_chunks, mask};
}

// The other half of the test: tap (t, r, s) is inside when (mask & need) == need.
DEVICE unsigned need_of(const Window& window, int t, int r, int s) {
    const unsigned depth = window.taps[0] == 1 ? 0 : 1u << (window.taps[2] + window.taps[1] + t);
    return 1u << s | 1u << (window.taps[2] + r) | depth;
}

// Distance in chunks from tap (0, 0, 0) to tap (t, r, s).
DEVICE int tap_offset(const Window& window, int t, int r, int s, int pixel_chunks) {
    const int rows = t * window.step[0] * window.size[1] + r * window.step[1];
    return (rows * window.size[2] + s * window.step[2]) * pixel_chunks;
}

}  // namespace cydnn
