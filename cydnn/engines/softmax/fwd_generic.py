"""Softmax of any rank, strides and float type."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .generic import Generic


class SoftmaxFwdGeneric(Generic):
    """A warp or a block a row, x read three times."""
    index, takes, kernel = 215, core(SoftmaxFwd), "softmax_fwd_generic"
    again = 2.0
