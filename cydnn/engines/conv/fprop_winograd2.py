"""Forward convolution by Winograd's algorithm on tiles of 2x2 outputs."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvFprop
from .winograd import Correlation, Winograd


class ConvFpropWinograd2(Winograd):
    """F(2x2, 3x3): 2.25 times fewer multiplications, as products of 16 matrices in the workspace; the sums
    are nearly as accurate as direct ones. An Inf or NaN spreads over the outputs of the tiles that read
    it."""
    index = 114
    takes = core(ConvFprop)
    v5 = ("WINOGRAD",)
    notes = ("deterministic", "winograd", "winograd_tile_4x4")
    out = 2
    correlation = Correlation.forward
