"""Softmax of short rows."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .warp import Warp


class SoftmaxFwdWarp(Warp):
    """8 or 32 lanes a row, x read once."""
    index, takes, kernel = 210, core(SoftmaxFwd), "softmax_fwd_warp"
