"""Batch norm for any strides: one element a lane, lanes along whichever of channels and samples lies innermost in the output."""
from __future__ import annotations

from ...ops import BatchNormBwd, BatchNormInference, BatchNormTraining
from . import batch_norm_columns as columns
from . import batch_norm_rows as rows
from .batch_norm_view import View, split_configs, two_pass_us, wrong_operands
from ..engine import Engine


def along_columns(v: View) -> bool:
    """Neighbouring lanes should take neighbouring columns: their stride is the smaller one, or there are few rows."""
    out = v.big[-1]
    far = float("inf")
    col = v.col_strides[out][0] if v.col_dims[0] > 1 else far
    row = v.row_strides[out][0] if v.row_dims[0] > 1 else far
    return col < row


class Strided(Engine):
    """What the three share."""
    passes = 3

    def configs(self, p, dev):
        return split_configs(p)

    def refuse(self, p, dev):
        yield from wrong_operands(p, dev)

    def cost(self, p, dev):
        return 2 * two_pass_us(p, dev, self.passes, 0.5)


class BatchNormTrainingStrided(Strided):
    """Any strides, rank 2 to 5."""
    index = 257
    op = BatchNormTraining

    def plan(self, p, dev, splits=None):
        return columns.plan_training(p, dev, vec=0, splits=splits) if along_columns(View.of(p)) else rows.plan_training(p, dev, wide=0, splits=splits)


class BatchNormInferenceStrided(Strided):
    """Any strides, rank 2 to 5."""
    index = 258
    op = BatchNormInference
    passes = 2

    def plan(self, p, dev, splits=None):
        return columns.plan_inference(p, dev, vec=0, splits=splits) if along_columns(View.of(p)) else rows.plan_inference(p, dev, wide=0, splits=splits)


class BatchNormBwdStrided(Strided):
    """Any strides, rank 2 to 5."""
    index = 259
    op = BatchNormBwd
    passes = 5

    def plan(self, p, dev, splits=None):
        return columns.plan_backward(p, dev, vec=0, splits=splits) if along_columns(View.of(p)) else rows.plan_backward(p, dev, wide=0, splits=splits)
