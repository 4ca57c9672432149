"""Reduction of the float types on any strides."""
from __future__ import annotations

from ..engine import memory_us
from .rows_view import plan_rows
from .view import ReductionEngine, too_many, view


class ReductionGeneric(ReductionEngine):
    """Any strides, and f64 math on any float type: one element a lane, lanes along the reduced elements."""
    index = 282

    def refuse_view(self, p, v):
        yield from too_many(v, v.reduced)

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.5 if view(p.x, p.y).inner_strides[0] == 1 else 0.15)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, 1)
