"""Batch norm training in one cooperative launch."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormTraining
from ...steps import Launch
from ..engine import Knob
from .grid import LANES_LOG2, Grid
from .operands import TRAINING, training_operands
from .view import View


class BatchNormTrainingGrid(Grid):
    """One launch of all SMs; x is read once where it fits in their shared memory and registers."""
    index, takes, kernel = 262, core(BatchNormTraining), "batch_norm_grid"
    tensors, kept, passes, waiting_us = 1, (0, 8), 2, 5.5
    knobs = (Knob("lanes_log2", LANES_LOG2), Knob("registers", kept))

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), self.args(p, dev, config)
        args = dict(training_operands(p), **size, **v.rows_args("x", "y"), **v.cols_args(*TRAINING))
        return [Launch(f"{self.kernel}_{p.x.dtype}_{config.registers}", args, grid)]
