// Scales in tiles of 128 rows and 4 columns: 512 bytes each, rows of tiles behind each other. In a tile the
// rows r, r + 32, r + 64 and r + 96 are neighbours, four bytes each.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

DEVICE unsigned in_tiles(unsigned row, unsigned col, unsigned columns) {
    return (row / 128 * (columns / 4) + col / 4) * 512 + row % 32 * 16 + row / 32 % 4 * 4 + col % 4;
}

// Where a scale of a matrix of them lies, in tiles or in rows.
DEVICE i64 place_of(unsigned row, unsigned col, unsigned columns, i64 step_row, bool is_tiled) {
    return is_tiled ? i64(in_tiles(row, col, columns)) : row * step_row + col;
}

// What a code of f4_e2m1 means, and the code of a number: the nearest, ties to an even one. NaN is 0.
DEVICE float f4_value(unsigned code) {
    const unsigned size = code & 7;
    const float value = size < 2 ? 0.5f * size : float(2 + size % 2) * (0.25f * (1u << size / 2));
    return code & 8 ? -value : value;
}
DEVICE unsigned f4_code(double x) {
    const double size = x < 0 ? -x : x;
    const unsigned code = (size > 0.25) + (size >= 0.75) + (size > 1.25) + (size >= 1.75) + (size > 2.5) +
                          (size >= 3.5) + (size > 5.0);
    return code | (__double2hiint(x) < 0 ? 8 : 0);
}
DEVICE unsigned f4_code(float x) {
    const float size = fabsf(x);
    const unsigned code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) +
                          (size > 2.5f) + (size >= 3.5f) + (size > 5.0f);
    return code | (__float_as_uint(x) >> 31) * 8;
}

}  // namespace cydnn
