"""The bias gradient of a convolution: the sum of dy over images and positions, by the reduction kernels."""
from __future__ import annotations

from ...ops import ConvBgrad
from ..reduction.columns import ReductionColumns
from ..reduction.view import ReductionEngine
from ..reduction.rows import ReductionGeneric, ReductionRows

FORMS = (ReductionRows, ReductionColumns, ReductionGeneric)


class ConvBgradSum(ReductionEngine):
    """A reduction of mode add: along planes of NCHW, across rows of NHWC, or element by element."""
    index, op, reads, writes = 160, ConvBgrad, "dy", "db"

    def mode(self, p):
        return "add"

    def _form(self, p):
        """The reduction engine whose kernels take dy."""
        v = self.view(p)
        return next((f for f in FORMS if next(iter(f.refuse_view(self, p, v)), None) is None), None)

    def refuse_view(self, p, v):
        return FORMS[-1].refuse_view(self, p, v) if self._form(p) is None else iter(())

    def cost(self, p, dev):
        return self._form(p).cost(self, p, dev)

    def plan_view(self, p, v, dev):
        return self._form(p).plan_view(self, p, v, dev)
