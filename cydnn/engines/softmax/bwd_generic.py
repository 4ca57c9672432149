"""Gradient of softmax of any rank, strides and float type."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .generic import Generic


class SoftmaxBwdGeneric(Generic):
    """A warp or a block a row, y and dy read twice."""
    index, takes, kernel = 225, core(SoftmaxBwd), "softmax_bwd_generic"
    again = 1.0
