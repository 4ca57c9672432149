"""Gradient of softmax over a dim that is not contiguous, beside one that is."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .strided import Strided


class SoftmaxBwdStrided(Strided):
    """Lanes along positions, warps along channels; y and dy are read once up to 64 channels."""
    index, takes, kernel = 224, core(SoftmaxBwd), "softmax_bwd_strided"
    held = 4

    @staticmethod
    def strides(outer, channel):
        return dict(outer=outer, channel=channel)
