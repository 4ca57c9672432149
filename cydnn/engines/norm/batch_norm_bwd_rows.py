"""Gradient of batch norm with contiguous planes."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from .rows import RowsEngine


class BatchNormBwdRows(RowsEngine):
    """Sums of dy and dy * xhat of a channel's planes in splits, then merge and dx."""
    index, takes = 256, core(BatchNormBwd)
    passes, share = 5, 0.8

    def plan(self, p, dev, config):
        return self.way(p).backward(config.splits)
