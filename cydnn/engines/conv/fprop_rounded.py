"""Forward convolution on tensor cores of what pointwise operations make in f32: a launch of its own writes it
to the workspace in the type of w."""
from __future__ import annotations

from typing import NamedTuple

from ...graph import Tensor, core, many, once_per_match
from ...ops import ConvFprop, Pointwise
from ...steps import placed
from ...tensor import TensorDesc
from ..cast import SIXTEEN
from ..engine import Config, Engine, wrong_device
from ..nested import AFTER_US
from ..pointwise.pointwise import PointwiseAny, PointwiseVector
from ..tile import sums
from . import prologue
from .fprop_first import ConvFpropFirst
from .fprop_mma import ConvFpropMma
from .halo import ConvFpropHalo
from .wgmma import ConvFpropWgmma


class NestedWay(NamedTuple):
    """An engine of a part and its configuration."""
    us: float
    engine: Engine
    config: Config


class ConvFpropRounded(Engine):
    """x is f32 between the operations in front and the convolution: it is rounded to the type of w, NHWC, and
    the cheapest of the tensor cores' engines takes it, and what follows."""
    index = 162
    takes = core(ConvFprop, before=many(Pointwise, at="x"), behind=many(Pointwise), last=sums.LAST)
    notes = ("deterministic", "tensor_core", prologue.DOWN_CONVERT)
    fronts = PointwiseVector(), PointwiseAny()
    inner = ConvFpropFirst(), ConvFpropHalo(), ConvFpropWgmma(), ConvFpropMma()

    def refuse(self, p, dev):
        yield from wrong_device(dev, 80)
        if not p.before.get("x"):
            yield "x must be made by pointwise operations; engines without a rounding take one in memory"
        elif p.x.dtype.name != "f32":
            yield f"x must be f32 between the operations, which is rounded; got {p.x.dtype}"
        elif p.w.dtype.name not in SIXTEEN:
            yield f"w must be one of {' '.join(SIXTEEN)}; got {p.w.dtype}"
        else:
            for match, engines in self.parts(p):
                if self.way(match, engines, dev) is None:
                    name = match.op.name if match.op else "pointwise"
                    yield from (f"{name} on what is rounded: {s}" for e in engines if e.fits(match)
                                for s in e.reasons(match, dev))

    @once_per_match
    def parts(self, p) -> tuple:
        """(match, its engines) of the operations in front, and of the rest."""
        desc = TensorDesc.packed(p.w.dtype, p.x.dims, "nhwc")
        x = Tensor(max(p.graph.tensors) + 1, desc)
        return (prologue.front(p, x), self.fronts), (prologue.reading(p, x), self.inner)

    @staticmethod
    @once_per_match
    def way(match, engines, dev) -> NestedWay | None:
        """The cheapest of the engines; None where none takes it."""
        ways = []
        for engine in engines:
            if engine.fits(match) and engine.accepts(match, dev):
                config = engine.best(match, dev)
                ways.append(NestedWay(engine.cost(match, dev, config), engine, config))
        return min(ways, key=lambda way: way.us, default=None)

    def cost(self, p, dev, config):
        return AFTER_US + sum(self.way(match, engines, dev).us for match, engines in self.parts(p))

    def plan(self, p, dev, config):
        new, area = max(p.graph.tensors) + 1, None
        area = p.scratch(TensorDesc.packed(p.w.dtype, p.x.dims, "nhwc").bytes)
        steps = []
        for match, engines in self.parts(p):
            way = self.way(match, engines, dev)
            steps += placed(way.engine.plan(match, dev, way.config), {new: area})
        return steps
