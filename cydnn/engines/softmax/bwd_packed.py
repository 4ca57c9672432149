"""Gradient of softmax of short rows without gaps."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .packed import Packed


class SoftmaxBwdPacked(Packed):
    """A thread a row, y and dy read once."""
    index, takes, kernel = 227, core(SoftmaxBwd), "softmax_bwd_packed"
    tiles = 2
