"""Softmax of few very long rows, held by the whole grid."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .grid import Grid


class SoftmaxFwdGrid(Grid):
    """Several blocks a row in one cooperative launch, x read once."""
    index, takes, kernel = 216, core(SoftmaxFwd), "softmax_fwd_grid"
    held, part_bytes = 16384, 8
