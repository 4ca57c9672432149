"""Gradient of batch norm with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from .columns import ColumnsEngine


class BatchNormBwdColumns(ColumnsEngine):
    """Sums of dy and dy * xhat of channels-innermost rows in splits, then merge and dx."""
    index, takes = 253, core(BatchNormBwd)
    passes, share = 5, 0.85

    def plan(self, p, dev, config):
        return self.way(p).backward(config.splits)
