"""Batch norm training with contiguous planes."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from .rows import RowsEngine
from .splits import FORWARD


class BatchNormTrainingRows(RowsEngine):
    """Statistics of a channel's planes in splits, then merge and apply."""
    index, takes = 254, core(BatchNormTraining)
    understands = FORWARD
    passes, share = 3, 0.85

    def plan(self, p, dev, config):
        return self.way(p).training(config.splits)
