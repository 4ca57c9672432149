"""The base of convolutions by Fourier transforms of tiles."""
from __future__ import annotations

from ..engine import Config, Knob
from .fft_conv import FftConv


class FftTiled(FftConv):
    """Tiles overlap by the filter less 1 (overlap-save); a dim that a tile holds is one transform."""
    points = (16, 32, 64)
    most_taps = 32
    knobs = (*FftConv.knobs, Knob("transform", points))

    def _config(self, tile, images, points):
        return Config(tile=tile, batch=images, transform=points)
