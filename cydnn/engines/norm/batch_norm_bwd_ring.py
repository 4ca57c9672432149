"""Gradient of batch norm with contiguous planes, channel after channel in shared memory."""
from __future__ import annotations

from ...graph import core
from ...ops import BatchNormBwd
from ...steps import Launch
from .operands import BACKWARD, backward_operands, is_known
from .ring import Ring
from .view import View


class BatchNormBwdRing(Ring):
    """One launch, one read of x and dy; loads of later channels overlap the stores of earlier ones."""
    index, takes, kernel = 265, core(BatchNormBwd), "batch_norm_bwd_ring"
    tensors, passes = 2, 3

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        if not is_known(p):
            yield "mean and rstd must be given; got none"

    def plan(self, p, dev, config):
        v, (size, grid) = View.of(p), self.args(p, dev, config)
        args = dict(backward_operands(p), rows=v.rows, **size,
                    **v.rows_args("x", "dy", "dx", items=128 // p.x.dtype.bits), **v.cols_args(*BACKWARD))
        return [Launch(f"{self.kernel}_{p.x.dtype}_{config.cluster}", args, grid)]
