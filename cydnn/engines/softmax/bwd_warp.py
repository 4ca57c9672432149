"""Gradient of softmax of short rows."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .warp import Warp


class SoftmaxBwdWarp(Warp):
    """8 or 32 lanes a row, y and dy read once."""
    index, takes, kernel = 220, core(SoftmaxBwd), "softmax_bwd_warp"
