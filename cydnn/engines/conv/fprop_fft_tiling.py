"""Forward convolution by Fourier transforms of tiles that overlap."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvFprop
from .fft_tiled import FftTiled


class ConvFpropFftTiling(FftTiled):
    """Tiles of 16, 32 or 64 points a dim, filters of at most 32; images of any size. An Inf or NaN spreads
    over the outputs of the tiles that read it."""
    index = 113
    takes = core(ConvFprop)
    v5 = ("FFT_TILING",)
    roles, norms = ("x", "w", "y"), "nc,kc->nk"
