"""Forward convolution by Winograd's algorithm on tiles of 4x4 outputs."""
from __future__ import annotations

from .fprop_winograd2 import ConvFpropWinograd2


class ConvFpropWinograd4(ConvFpropWinograd2):
    """F(4x4, 3x3): four times fewer multiplications, as products of 36 matrices in the workspace; rounding
    errors are about ten times those of direct sums. An Inf or NaN spreads over the outputs of the tiles that
    read it."""
    index = 115
    notes = ("deterministic", "winograd", "winograd_tile_6x6")
    out = 4
