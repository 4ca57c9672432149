"""Data gradient by Fourier transforms of tiles that overlap."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvDgrad
from .dgrad_fft import reversed_pre
from .fft_tiled import FftTiled


class ConvDgradFftTiling(FftTiled):
    """As the forward convolution of dy with the reversed filter, tile by tile; images of any size. An Inf or
    NaN spreads over the gradients of the tiles that read it."""
    index = 133
    takes = core(ConvDgrad)
    v5 = ("ALGO_FFT_TILING",)
    roles, norms = ("dy", "w", "dx"), "nk,kc->nc"
    inner, reverses = (False, True, False), "cross_correlation"

    def _pre(self, p):
        return reversed_pre(p)
