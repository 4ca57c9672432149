"""Gradient of batch norm of few samples a channel, which a block keeps in registers."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from ...steps import Launch
from .operands import BACKWARD, backward_operands, is_known
from .resident import Resident, sizes
from .view import View


class BatchNormBwdResident(Resident):
    """One launch, one read of x and dy."""
    index, takes, kernel = 260, core(BatchNormBwd), "batch_norm_bwd_resident"
    passes = 3

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), sizes(p, dev)
        args = dict(backward_operands(p), **size, **v.rows_args("x", "dy", "dx"), **v.cols_args(*BACKWARD))
        return [Launch(f"{self.kernel}_{p.x.dtype}_{is_known(p)}", args, grid)]
