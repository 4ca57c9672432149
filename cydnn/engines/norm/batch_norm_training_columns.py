"""Batch norm training with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from .columns import ColumnsEngine
from .splits import FORWARD


class BatchNormTrainingColumns(ColumnsEngine):
    """Statistics of channels-innermost rows in splits, then merge and apply."""
    index, takes = 251, core(BatchNormTraining)
    understands = FORWARD
    passes, share = 3, 0.85

    def plan(self, p, dev, config):
        return self.way(p).training(config.splits)
