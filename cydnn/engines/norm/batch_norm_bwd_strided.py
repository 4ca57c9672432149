"""Gradient of batch norm for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from .strided import StridedEngine


class BatchNormBwdStrided(StridedEngine):
    """Any strides, rank 2 to 5."""
    index, takes = 259, core(BatchNormBwd)
    passes = 5

    def plan(self, p, dev, config):
        return self.way(p).backward(config.splits)
