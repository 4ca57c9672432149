"""Batch norm inference for any strides."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormInference
from .splits import FORWARD
from .strided import StridedEngine


class BatchNormInferenceStrided(StridedEngine):
    """Any strides, rank 2 to 5."""
    index, takes = 258, core(BatchNormInference)
    understands = FORWARD
    passes = 2

    def plan(self, p, dev, config):
        return self.way(p).inference(config.splits)
