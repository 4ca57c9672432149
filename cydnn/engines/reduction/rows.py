"""Reduction with lanes along the reduced elements: contiguous rows by 16-byte loads."""
from __future__ import annotations

from ..engine import memory_us
from .rows_view import plan_rows
from .view import ReductionEngine, math_type, too_many


class ReductionRows(ReductionEngine):
    """16-byte loads along contiguous reduced elements;
    several blocks a result, and a second launch, where results are few."""
    index = 280

    def refuse_view(self, p, v):
        if v.row_vector() == 1:
            yield (f"needs contiguous reduced elements in whole 16-byte units; got reduced dims {v.inner} "
                   f"with strides {v.inner_strides}, strides of kept dims {v.x_strides}")
        if math_type(p) == "f64" and v.x.dtype.name != "f64":
            yield f"compute must be f32 for {v.x.dtype} data; got {p.op.compute}"
        yield from too_many(v, v.reduced // v.row_vector())

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=0.88)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, v.row_vector())
