"""Gradient of softmax of few very long rows, held by the whole grid."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .grid import Grid


class SoftmaxBwdGrid(Grid):
    """Several blocks a row in one cooperative launch, y and dy read once."""
    index, takes, kernel = 226, core(SoftmaxBwd), "softmax_bwd_grid"
    held, part_bytes = 8192, 4
