"""Reduction with lanes along the reduced elements: contiguous rows by 16-byte loads, and anything else element by element."""
from __future__ import annotations

from ...ops import Reduction
from .view import AHEAD, BLOCK, BLOCKS_PER_SM, FOLDS, ReductionEngine, move_us, power, splits_for
from ...steps import Launch

WAVES = 3                                        # of resident blocks that are enough: beyond, a thread goes round instead


def width_for(dev, outputs: int, units: int) -> int:
    """Lanes of a result: all its loads at once, or from one warp on fewer lanes and several rounds where results are many."""
    width = power(-(-units // AHEAD))
    while width > 32 and outputs * width >= 2 * WAVES * BLOCKS_PER_SM * dev.sms * BLOCK:
        width //= 2
    return width


def plan_rows(engine: ReductionEngine, p, v, dev, vec: int) -> list[Launch]:
    """``vec`` elements a unit: 16 bytes of them, or 1."""
    fold, math, wide = FOLDS[engine.mode(p)][0], engine.math(p), vec > 1
    units = v.reduced // vec
    width = width_for(dev, v.outputs, units)
    splits = 1
    if width == BLOCK:
        splits = splits_for(dev, v.outputs, units, BLOCK * AHEAD)
    args = engine.arguments(p, v) | dict(units=units, splits=splits, width=width)
    if wide:
        args["in_dims"] = (max(v.inner[0] // vec, 1), *args["in_dims"][1:])
        args["in_strides"] = (vec, *args["in_strides"][1:])
    finisher = f"reduction_rows_{fold}_{math}_{math}_0", dict(width=power(-(-splits // 4)))
    return engine.staged(p, v, dev, f"reduction_rows_{fold}_{v.x.dtype}_{math}_{int(wide)}", args, finisher, (1, splits))


class ReductionRows(ReductionEngine):
    """16-byte loads along contiguous reduced elements; several blocks a result, and a second launch, where results are few."""
    index, op = 280, Reduction

    def refuse_view(self, p, v):
        if v.row_vector() == 1:
            yield (f"needs contiguous reduced elements in whole 16-byte units; got reduced dims {v.inner} with strides {v.inner_strides}, "
                   f"strides of kept dims {v.x_strides}")
        if self.math(p) == "f64" and v.x.dtype.name != "f64":
            yield f"computes {v.x.dtype} in f32; op asks for f64"
        yield from self.too_many(v, v.reduced // v.row_vector())

    def cost(self, p, dev):
        return move_us(self.view(p), dev, 0.88)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, v.row_vector())


class ReductionGeneric(ReductionEngine):
    """Any strides, and f64 math on any type: one element a lane, lanes along the reduced elements."""
    index, op = 282, Reduction

    def refuse_view(self, p, v):
        yield from self.too_many(v, v.reduced)

    def cost(self, p, dev):
        v = self.view(p)
        return move_us(v, dev, 0.5 if v.inner_strides[0] == 1 else 0.15)

    def plan_view(self, p, v, dev):
        return plan_rows(self, p, v, dev, 1)
