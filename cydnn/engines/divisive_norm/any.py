"""Divisive normalization for any strides, a thread an element: what both directions share."""
from __future__ import annotations

from ...dtypes import BY_NAME
from ..pool.view import inner_first, lanes, strides_of
from .view import DivisiveNormEngine, reach


class Anywhere(DivisiveNormEngine):
    """Every window is walked cell by cell."""

    def share(self, p):
        return 0.5 / max(p.op.cells(p.x.rank), 1)

    @staticmethod
    def strides(p, *names) -> dict:
        """Strides w h d c n of operands; zeros of what is absent."""
        return {f"{n}_strides": strides_of(p.operands[n], channel=True) if p.operands[n] is not None
                else (0,) * 5 for n in names}

    @staticmethod
    def walk(p) -> dict:
        """What every kernel is told of the elements and the window."""
        return dict(items=p.x.count, sizes=inner_first(p.x.spatial, 1), **lanes(p.x), **reach(p))

    @staticmethod
    def scratch_strides(p) -> tuple:
        """Strides w h d c n of an array in the order of the items."""
        found, step = lanes(p.x), 1
        steps = []
        for size in found["digits"]:
            steps.append(step)
            step *= size
        c, spatial = (steps[0], steps[1:]) if found["channels_inner"] else (steps[3], steps[:3])
        return (*spatial, c, step)

    @staticmethod
    def array(p):
        """A fresh array of one number of the compute type for every element."""
        return p.scratch(BY_NAME[p.x.dtype.compute].bytes_of(p.x.count))
