"""The reference engine: any op on the NumPy device, by its own definition."""
from .engine import Engine
from ..steps import ReferenceCall


class Reference(Engine):
    """The op's NumPy reference, float64 inside, rounded once."""
    index = 0

    def refuse(self, p, dev):
        if dev.kind != "numpy":
            yield f"runs on the NumPy device; device is {dev.kind}"

    def cost(self, p, dev):
        return 1e9

    def plan(self, p, dev):
        operands = {name: (desc, p.source(name)) if desc is not None else None for name, desc in p.operands.items()}
        return [ReferenceCall(p.op, operands, {name: p.scalar(name) for name in p.op.scalars})]
