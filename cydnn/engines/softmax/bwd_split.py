"""Gradient of softmax of few or very long rows, in two launches."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxBwd
from .split import Split


class SoftmaxBwdSplit(Split):
    """The sum of each slice, then the result; y and dy are read twice, the second time mostly from the L2
    cache."""
    index, takes, kernel = 223, core(SoftmaxBwd), "softmax_bwd_apply"
    scan, part_bytes, tile_bytes = "softmax_bwd_scan", 4, 16384
    scan_drops = ("dx", "dx_row", "alpha", "beta")
