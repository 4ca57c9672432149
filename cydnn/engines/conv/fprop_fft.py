"""Forward convolution by Fourier transforms of whole images."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvFprop
from .fft_conv import FftConv


class ConvFpropFft(FftConv):
    """Padded images of at most 256 pixels a dim, in transforms of 2^a 3^b 5^c points; products in f32 (f64
    for f64). An Inf or NaN spreads over the outputs of its image."""
    index = 112
    takes = core(ConvFprop)
    v5 = ("FFT",)
    roles, norms = ("x", "w", "y"), "nc,kc->nk"
