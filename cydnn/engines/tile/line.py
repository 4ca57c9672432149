"""Lines in which the tile programs bring operands."""

DEPTH, LINE, BYTES = 64, 64, 2                   # elements of a step; of a row of 128 bytes; bytes of one
