"""Softmax over channels of NCHW images, held in registers."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .columns import Columns
from .fwd_strided import SoftmaxFwdStrided


class SoftmaxFwdColumns(Columns):
    """Lanes along positions, up to 4096 channels, x read once."""
    index, takes, kernel = 218, core(SoftmaxFwd), "softmax_fwd_columns"
    shares = dict.fromkeys((16, 32, 64, 128, 256), 0.85) | {512: 0.65, 1024: 0.65, 4096: 0.6}
    strides = staticmethod(SoftmaxFwdStrided.strides)
