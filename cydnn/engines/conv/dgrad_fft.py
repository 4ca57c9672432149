"""Data gradient by Fourier transforms of whole images."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvDgrad
from .fft_conv import FftConv


class ConvDgradFft(FftConv):
    """As the forward convolution of dy with the reversed filter: padded images of at most 256 pixels a dim.
    An Inf or NaN spreads over the gradients of its image."""
    index = 132
    takes = core(ConvDgrad)
    v5 = ("ALGO_FFT",)
    roles, norms = ("dy", "w", "dx"), "nk,kc->nc"
    inner, reverses = (False, True, False), "cross_correlation"

    def _pre(self, p):
        return reversed_pre(p)


def reversed_pre(p) -> tuple:
    """Zeros in front of dy, in three dims: what the filter reaches less the padding."""
    fill, pre = 5 - p.w.rank, p.op.geometry(p.w.rank)[0]
    return (0,) * fill + tuple(n - 1 - a for n, a in zip(p.w.spatial, pre))
