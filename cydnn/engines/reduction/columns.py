"""Reduction with lanes along the kept elements, which are contiguous."""
from __future__ import annotations

from ...ops import Reduction
from .view import AHEAD, BLOCK, FOLDS, ReductionEngine, move_us, power, splits_for
from ...steps import Launch

LANES = 32                                       # of a block along the outputs, unless rows are few
PART_LANES = 4                                   # in the second launch, unless parts are few: all of them in one or two rounds


def lanes_for(columns: int, rows: int, least: int) -> int:
    """Lanes of a block along the outputs: ``least``, or more where fewer groups of rows are enough to load all at once."""
    return power(columns, max(least, BLOCK // power(-(-rows // AHEAD))))


def plan_columns(engine: ReductionEngine, p, v, dev) -> list[Launch]:
    fold, math, vec = FOLDS[engine.mode(p)][0], engine.math(p), v.column_vector()
    columns, rows = v.outputs // vec, v.reduced
    lanes = lanes_for(columns, rows, LANES)
    splits = splits_for(dev, -(-columns // lanes), rows, BLOCK // lanes * AHEAD)
    args = engine.arguments(p, v) | dict(splits=splits, lanes=lanes)
    finisher = f"reduction_columns_{fold}_{math}_0", dict(lanes=lanes_for(v.outputs, splits, PART_LANES))
    return engine.staged(p, v, dev, f"reduction_columns_{fold}_{v.x.dtype}_{int(vec > 1)}", args, finisher, (v.outputs, 1))


class ReductionColumns(ReductionEngine):
    """Lanes along contiguous kept elements; rows are split over blocks, and a second launch adds the parts, where columns are few."""
    index, op = 281, Reduction

    def refuse_view(self, p, v):
        if v.x_strides[0] != 1 or v.outer[0] == 1:
            yield f"needs contiguous kept elements; got kept dims {v.outer} with strides {v.x_strides}"
        if self.math(p) == "f64" and v.x.dtype.name != "f64":
            yield f"computes {v.x.dtype} in f32; op asks for f64"
        yield from self.too_many(v, v.reduced)

    def cost(self, p, dev):
        v = self.view(p)
        return move_us(v, dev, 0.88 if v.column_vector() > 1 else 0.5)

    def plan_view(self, p, v, dev):
        return plan_columns(self, p, v, dev)
