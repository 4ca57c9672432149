"""Batch norm training for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from .splits import FORWARD
from .strided import StridedEngine


class BatchNormTrainingStrided(StridedEngine):
    """Any strides, rank 2 to 5."""
    index, takes = 257, core(BatchNormTraining)
    understands = FORWARD
    passes = 3

    def plan(self, p, dev, config):
        return self.way(p).training(config.splits)
