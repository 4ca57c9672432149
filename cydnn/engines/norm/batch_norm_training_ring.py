"""Batch norm training with contiguous planes, channel after channel in shared memory."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from ...steps import Launch
from .operands import TRAINING, training_operands
from .ring import Ring
from .view import View


class BatchNormTrainingRing(Ring):
    """One launch, one read of x; loads of later channels overlap the stores of earlier ones."""
    index, takes, kernel = 264, core(BatchNormTraining), "batch_norm_ring"

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), self.args(p, dev, config)
        args = dict(training_operands(p), **size, **v.rows_args("x", "y", items=128 // p.x.dtype.bits),
                    **v.cols_args(*TRAINING))
        return [Launch(f"{self.kernel}_{p.x.dtype}_{config.cluster}", args, grid)]
