"""Data gradient by Winograd's algorithm on tiles of 4x4 outputs."""
from __future__ import annotations

from .dgrad_winograd2 import ConvDgradWinograd2


class ConvDgradWinograd4(ConvDgradWinograd2):
    """F(4x4, 3x3): four times fewer multiplications, as products of 36 matrices in the workspace; rounding
    errors are about ten times those of direct sums. An Inf or NaN spreads over the gradients of the tiles
    that read it."""
    index = 135
    notes = ("deterministic", "winograd", "winograd_tile_6x6")
    out = 4
