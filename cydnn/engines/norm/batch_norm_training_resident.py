"""Batch norm training of few samples a channel, which a block keeps in registers."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from ...steps import Launch
from .operands import TRAINING, training_operands
from .resident import Resident, sizes
from .view import View


class BatchNormTrainingResident(Resident):
    """One launch, one read of x."""
    index, takes, kernel = 250, core(BatchNormTraining), "batch_norm_resident"

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), sizes(p, dev)
        args = dict(training_operands(p), **size, **v.rows_args("x", "y"), **v.cols_args(*TRAINING))
        return [Launch(f"{self.kernel}_{p.x.dtype}", args, grid)]
