"""A flag set behind a copy, or waited for in front of it."""
from __future__ import annotations

from ...graph import core
from ...ops import Signal, Transform
from ...steps import Launch
from ...tensor import TensorDesc
from ..engine import Engine, wrong_device
from ..layout.tensor_ops import TransformAny, TransformVector
from ..nested import NestedOp, NestedOperand


class SignalFlag(Engine):
    """One thread for the flag, and the copy of x to y."""
    index, takes = 485, core(Signal)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if p.y.count:
            yield from self._copy(p).reasons(dev)

    @staticmethod
    def _copy(p) -> NestedOp:
        plain = lambda t: TensorDesc(t.dtype, t.dims, t.strides)
        x, y = (NestedOperand(plain(t), p.ptr(name), t.alignment) for name, t in (("x", p.x), ("y", p.y)))
        math = "f64" if "f64" in (p.x.dtype.compute, p.y.dtype.compute) else "f32"
        return NestedOp(Transform(compute=math), (TransformVector(), TransformAny()), x=x, y=y)

    def cost(self, p, dev, config):
        return dev.launch_us + (self._copy(p).choice(dev)[0] if p.y.count else 0.0)

    def plan(self, p, dev, config):
        copy = self._copy(p).steps(dev) if p.y.count else []
        flag = [Launch(f"signal_flag_{p.op.mode}", dict(flag=p.ptr("flag"), value=p.op.value))]
        return [*flag, *copy] if p.op.mode == "wait" else [*copy, *flag]
