"""Gradient of batch norm in one cooperative launch."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from ...steps import Launch
from ..engine import Knob
from .grid import LANES_LOG2, Grid
from .operands import BACKWARD, backward_operands, is_known
from .view import View


class BatchNormBwdGrid(Grid):
    """One launch of all SMs; x and dy are read once where they fit in their shared memory and registers."""
    index, takes, kernel = 263, core(BatchNormBwd), "batch_norm_bwd_grid"
    tensors, kept, passes, waiting_us = 2, (0, 4), 3, 4.0
    knobs = (Knob("lanes_log2", LANES_LOG2), Knob("registers", kept))

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not is_known(p):
            yield "mean and rstd must be given; got none"

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), self.args(p, dev, config)
        args = dict(backward_operands(p), **size, **v.rows_args("x", "dy", "dx"), **v.cols_args(*BACKWARD))
        return [Launch(f"{self.kernel}_{p.x.dtype}_{config.registers}", args, grid)]
