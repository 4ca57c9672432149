"""Reduction with lanes along the kept elements, which are contiguous."""
from __future__ import annotations

from ...kernels.expressions import ceil_div
from ..engine import memory_us
from .view import AHEAD, BLOCK, FOLDS, ReductionEngine, math_type, power, splits_for, too_many, view

LANES = 32                                       # of a block along the outputs, unless rows are few
PART_LANES = 4                                   # in the second launch, unless parts are few


def lanes_for(columns: int, rows: int, least: int) -> int:
    """Lanes of a block along the outputs:
    ``least``, or more where fewer groups of rows are enough to load all at once."""
    return power(columns, max(least, BLOCK // power(ceil_div(rows, AHEAD))))


class ReductionColumns(ReductionEngine):
    """Lanes along contiguous kept elements;
    rows are split over blocks, and a second launch adds the parts, where columns are few."""
    index = 281

    def refuse_view(self, p, v):
        if v.x_strides[0] != 1 or v.outer[0] == 1:
            yield f"needs contiguous kept elements; got kept dims {v.outer} with strides {v.x_strides}"
        if math_type(p) == "f64" and v.x.dtype.name != "f64":
            yield f"compute must be f32 for {v.x.dtype} data; got {p.op.compute}"
        yield from too_many(v, v.reduced)

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.88 if view(p.x, p.y).column_vector() > 1 else 0.5)

    def plan_view(self, p, v, dev):
        fold, math, vec = FOLDS[p.op.mode][0], math_type(p), v.column_vector()
        columns, rows = v.outputs // vec, v.reduced
        lanes = lanes_for(columns, rows, LANES)
        splits = splits_for(dev, ceil_div(columns, lanes), rows, BLOCK // lanes * AHEAD)
        args = self.arguments(p, v) | dict(splits=splits, lanes=lanes)
        finisher = f"reduction_columns_{fold}_{math}_0", dict(lanes=lanes_for(v.outputs, splits, PART_LANES))
        kernel = f"reduction_columns_{fold}_{v.x.dtype}_{int(vec > 1)}"
        return self.staged(p, v, kernel, args, finisher, (v.outputs, 1))
