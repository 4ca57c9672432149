"""Batch norm inference with contiguous planes."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormInference
from .rows import RowsEngine
from .splits import FORWARD


class BatchNormInferenceRows(RowsEngine):
    """One pass over a channel's planes."""
    index, takes = 255, core(BatchNormInference)
    understands = FORWARD
    passes, share, launches = 2, 0.85, 1

    def plan(self, p, dev, config):
        return self.way(p).inference(config.splits)
