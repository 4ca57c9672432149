"""Batch norm inference with channels innermost."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormInference
from .columns import ColumnsEngine
from .splits import FORWARD


class BatchNormInferenceColumns(ColumnsEngine):
    """One pass over channels-innermost rows, the factors of a channel in registers."""
    index, takes = 252, core(BatchNormInference)
    understands = FORWARD
    passes, share, launches = 2, 0.9, 1

    def plan(self, p, dev, config):
        return self.way(p).inference(config.splits)
