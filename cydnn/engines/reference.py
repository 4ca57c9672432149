"""The reference engine: any op on the NumPy device, by its own definition."""
from __future__ import annotations

from ..graph import source_of
from ..ops import OPS
from ..steps import Pointer, ReferenceCall
from .engine import Engine, numbers

NO_ESTIMATE_US = 1e9                            # last of all; nobody measured it


class Reference(Engine):
    """The op's NumPy reference, float64 inside, rounded once."""
    index = 0
    understands = numbers() | {"ragged"} | {what for op in OPS for what in op.special.values()}

    @property
    def op(self):
        return None

    def refuse(self, p, dev):
        if dev.kind != "numpy":
            yield f"runs on the NumPy device; device is {dev.kind}"

    def cost(self, p, dev, config):
        return NO_ESTIMATE_US

    def plan(self, p, dev, config):
        at = lambda t: (t.desc, source_of(t))
        one = lambda t: at(t) if t.ragged is None else (*at(t), at(p.graph.tensors[t.ragged]))
        give = lambda t: tuple(map(one, t)) if isinstance(t, tuple) else t and one(t)
        operands = {name: give(t) for name, t in p.operands.items()}
        return [ReferenceCall(p.op, operands, {name: self._number(p, name) for name in p.op.scalars})]

    @staticmethod
    def _number(p, name):
        """A scalar, or what lies in memory and where."""
        source = p.scalar(name)
        return (p.graph.tensors[source.uid].desc, source) if isinstance(source, Pointer) else source
