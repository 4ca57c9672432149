"""What the reductions with lanes along the reduced elements share."""
from __future__ import annotations

from ...kernels.expressions import ceil_div
from .view import AHEAD, BLOCK, BLOCKS_PER_SM, FOLDS, ReductionEngine, math_type, power, splits_for

WAVES = 3                                        # of resident blocks; beyond, a thread goes round instead


def width_for(dev, outputs: int, units: int) -> int:
    """Lanes of a result: all its loads at once,
    or from one warp on fewer lanes and several rounds where results are many."""
    width = power(ceil_div(units, AHEAD))
    while width > 32 and outputs * width >= 2 * WAVES * BLOCKS_PER_SM * dev.sms * BLOCK:
        width //= 2
    return width


def plan_rows(engine: ReductionEngine, p, v, dev, vec: int) -> list:
    """``vec`` elements a unit: 16 bytes of them, or 1."""
    fold, math, wide = FOLDS[p.op.mode][0], math_type(p), vec > 1
    units = v.reduced // vec
    width = width_for(dev, v.outputs, units)
    splits = splits_for(dev, v.outputs, units, BLOCK * AHEAD) if width == BLOCK else 1
    args = engine.arguments(p, v) | dict(units=units, splits=splits, width=width)
    if wide:
        args["in_dims"] = (max(v.inner[0] // vec, 1), *args["in_dims"][1:])
        args["in_strides"] = (vec, *args["in_strides"][1:])
    finisher = f"reduction_rows_{fold}_{math}_{math}_0", dict(width=power(ceil_div(splits, 4)))
    kernel = f"reduction_rows_{fold}_{v.x.dtype}_{math}_{int(wide)}"
    return engine.staged(p, v, kernel, args, finisher, (1, splits))
