"""Data gradient by Winograd's algorithm on tiles of 2x2 outputs."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvDgrad
from .winograd import Correlation, Winograd


class ConvDgradWinograd2(Winograd):
    """F(2x2, 3x3): 2.25 times fewer multiplications, as products of 16 matrices in the workspace; the sums
    are nearly as accurate as direct ones. An Inf or NaN spreads over the gradients of the tiles that read
    it."""
    index = 134
    takes = core(ConvDgrad)
    v5 = ("ALGO_WINOGRAD",)
    notes = ("deterministic", "winograd", "winograd_tile_4x4")
    out = 2
    correlation = Correlation.backward
