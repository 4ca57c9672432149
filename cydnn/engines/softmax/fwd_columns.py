"""Softmax over channels of NCHW images, held in registers."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .columns import Columns
from .fwd_strided import SoftmaxFwdStrided


class SoftmaxFwdColumns(Columns):
    """Lanes along positions, up to 1024 channels, x read once."""
    index, takes, kernel = 218, core(SoftmaxFwd), "softmax_fwd_columns"
    strides = staticmethod(SoftmaxFwdStrided.strides)
