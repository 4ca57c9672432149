"""Batch norm for any strides: one element a lane, lanes along channels or samples, as they lie in y or dx."""
from __future__ import annotations

from .columns import Columns
from .rows import Rows
from .splits import SplitEngine
from .view import View


def along_columns(v: View) -> bool:
    """Neighbouring lanes should take neighbouring columns: their stride is the smaller one, or there is one
    row."""
    out = v.big[-1]
    far = float("inf")
    col = v.col_strides[out][0] if v.col_dims[0] > 1 else far
    row = v.row_strides[out][0] if v.row_dims[0] > 1 else far
    return col < row


class StridedEngine(SplitEngine):
    """What the three share: every type and stride, at half the speed that vectors reach in each launch."""

    def way(self, p):
        return (Columns if along_columns(View.of(p)) else Rows)(p, 0)

    def cost(self, p, dev, config):
        return 2 * super().cost(p, dev, config)
