"""Softmax of short rows without gaps."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .packed import Packed


class SoftmaxFwdPacked(Packed):
    """A thread a row, x read once."""
    index, takes, kernel = 217, core(SoftmaxFwd), "softmax_fwd_packed"
    tiles = 1
