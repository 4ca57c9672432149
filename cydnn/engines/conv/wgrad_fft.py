"""Filter gradient by Fourier transforms of whole images."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvWgrad
from .fft_conv import FftConv


class ConvWgradFft(FftConv):
    """The correlation of x with dy, summed over the images while it is a spectrum: padded images of at most
    256 pixels a dim. An Inf or NaN spreads over the filters of its channels."""
    index = 152
    takes = core(ConvWgrad)
    v5 = ("ALGO_FFT",)
    roles, norms, inner = ("x", "dy", "dw"), "nc,nk->kc", (True, True, True)

    def _correlate(self, t, image, kernel, out, chunks, tile, blend):
        size = t.dtype.bytes
        for first, images in chunks:
            here, there = image.part(first, images, size), kernel.part(first, images, size)
            gradients, spectra = t.forward(there, "kernel"), t.forward(here, "image")
            sums = t.product(gradients, spectra, (out.outer, here.inner, here.outer), tile, first > 0)
        t.inverse(sums, out, **blend)
