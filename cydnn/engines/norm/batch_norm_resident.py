"""Batch norm in one launch for few samples a channel: a block keeps its channels in registers, so x (and dy) are read once."""
from __future__ import annotations

from ...ops import BatchNormBwd, BatchNormTraining
from .batch_norm_columns import BACKWARD, TRAINING, backward_operands, training_operands
from .batch_norm_view import View, ceil_div, log2_ceil, no_column_vectors, wrong_operands
from ..engine import Engine
from ...steps import Launch

THREADS, ROWS_PER_THREAD = 512, 8


def lanes_log2(v: View, vectors: int, sms: int) -> int:
    """Lanes side by side: as many as the rows allow (8 at most, 128 bytes of a row), fewer (but 32 bytes of a row) while blocks are missing."""
    most = min(3, log2_ceil(vectors))
    while most and v.rows > ROWS_PER_THREAD * (THREADS >> most):
        most -= 1
    while most > 1 and ceil_div(vectors, 1 << most) < sms:
        most -= 1
    return most


def _cut(p, dev):
    v = View.of(p)
    vectors = ceil_div(v.cols, 16 // p.x.dtype.bytes)
    lanes = lanes_log2(v, vectors, dev.sms)
    return v, dict(rows=v.rows, cols=v.cols, lanes_log2=lanes), dict(blocks=ceil_div(vectors, 1 << lanes))


class Resident(Engine):
    """What both share."""
    passes = 2

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev, types=("f32", "f16", "bf16"))
        v = View.of(p)
        yield from no_column_vectors(p, v)
        if v.rows > THREADS * ROWS_PER_THREAD:
            yield f"samples of a channel must fit in the registers of a block, {THREADS * ROWS_PER_THREAD} at most; got {v.rows}"

    def cost(self, p, dev):
        return 3.5 + self.passes * p.x.count * p.x.dtype.bytes / (dev.bandwidth_gbs * 0.6) * 1e-3


class BatchNormTrainingResident(Resident):
    """One launch, one read of x."""
    index = 250
    op = BatchNormTraining

    def plan(self, p, dev):
        v, size, grid = _cut(p, dev)
        if not v.cols:
            return []
        args = dict(training_operands(p), **size, **v.rows_args("x", "y"), **v.cols_args(*TRAINING))
        return [Launch(f"batch_norm_resident_{p.x.dtype}", args, grid)]


class BatchNormBwdResident(Resident):
    """One launch, one read of x and dy."""
    index = 260
    op = BatchNormBwd
    passes = 3

    def plan(self, p, dev):
        v, size, grid = _cut(p, dev)
        if not v.cols:
            return []
        args = dict(backward_operands(p), **size, **v.rows_args("x", "dy", "dx"), **v.cols_args(*BACKWARD))
        return [Launch(f"batch_norm_bwd_resident_{p.x.dtype}_{int(p.mean is not None)}", args, grid)]
