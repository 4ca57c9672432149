// Scales in tiles of 128 rows and 4 columns: 512 bytes each, rows of tiles behind each other. In a tile the
// rows r, r + 32, r + 64 and r + 96 are neighbours, four bytes each.
#pragma once
#include "lib/types.cuh"

namespace cydnn {

DEVICE unsigned in_tiles(unsigned row, unsigned col, unsigned columns) {
    return (row / 128 * (columns / 4) + col / 4) * 512 + row % 32 * 16 + row / 32 % 4 * 4 + col % 4;
}

}  // namespace cydnn
