"""Gradient of softmax over channels of NCHW images, held in registers."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .columns import Columns
from .bwd_strided import SoftmaxBwdStrided


class SoftmaxBwdColumns(Columns):
    """Lanes along positions, up to 1024 channels, y and dy read once."""
    index, takes, kernel = 228, core(SoftmaxBwd), "softmax_bwd_columns"
    shares = dict.fromkeys((16, 32, 64, 128, 256), 0.85) | {512: 0.65, 1024: 0.65}
    strides = staticmethod(SoftmaxBwdStrided.strides)
