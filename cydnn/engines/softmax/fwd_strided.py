"""Softmax over a dim that is not contiguous, beside one that is."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .strided import Strided


class SoftmaxFwdStrided(Strided):
    """Lanes along positions, warps along channels; x is read once up to 128 channels."""
    index, takes, kernel = 214, core(SoftmaxFwd), "softmax_fwd_strided"
    held = 8

    @staticmethod
    def strides(outer, channel):
        return dict(x_outer=outer[0], y_outer=outer[1], x_channel=channel[0], y_channel=channel[1])
