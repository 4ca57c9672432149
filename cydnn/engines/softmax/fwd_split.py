"""Softmax of few or very long rows, in two launches."""
from __future__ import annotations

from ...graph import core
from ...ops import SoftmaxFwd
from .split import Split


class SoftmaxFwdSplit(Split):
    """Maximum and sum of each slice, then the result; x is read twice, the second time mostly from the L2
    cache."""
    index, takes, kernel = 213, core(SoftmaxFwd), "softmax_fwd_apply"
    scan, part_bytes, tile_bytes = "softmax_fwd_scan", 8, 32768
    scan_drops = ("y", "y_row", "is_log", "alpha", "beta")
