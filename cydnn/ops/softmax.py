"""Softmax and its gradient: three algorithms, two modes."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .op import Op, choice, integer
from .pointwise import Pointwise
from .reduction import Reduction

ALGORITHMS = ("accurate", "fast", "log")
MODES = ("channel", "instance")


@dataclass(frozen=True)
class Softmax(Op):
    """What both directions share: which dims are a row."""
    algorithm: str = choice(*ALGORITHMS)
    mode: str = choice(*MODES, doc="over one dim (c, or axis), or over all dims of an image")
    axis: int = integer(1, lo=0, doc="the dim of mode channel")

    def axes(self, rank) -> tuple:
        """The dims that a row runs over."""
        return (self.axis,) if self.mode == "channel" else tuple(range(1, rank))

    def row(self, x) -> int:
        """Elements of a row."""
        return prod(x.dims[i] for i in self.axes(x.rank))

    def rules(self, x, name):
        yield 2 <= x.rank <= 8, f"{name} must have rank 2 to 8; got {x.rank}"
        yield self.axis < x.rank, f"axis must be < rank {x.rank}; got {self.axis}"


@dataclass(frozen=True)
class SoftmaxFwd(Softmax, reads="x", writes="y"):
    """Softmax over all c at one (n, position) (mode channel)
    or over c and all positions of an image (instance).

    x, y of equal dims, rank >= 2, any strides.
    algorithm "accurate" subtracts the maximum, "fast" may, "log" is log-softmax.
    Spec: v5 guide, cudnnSoftmaxForward.
    """
    inplace = (("y", "x"),)

    def check(self, x):
        return self.rules(x, "x")

    def infer(self, x):
        return {"y": x}

    def lower(self, descs, absent=()):
        x, math = descs["x"], BY_NAME[self.math]
        point = lambda mode: Pointwise(mode=mode, compute=self.unrounded)
        fold = lambda mode: Reduction(mode=mode, compute=self.unrounded)
        thin = TensorDesc.packed(math, [1 if i in self.axes(x.rank) else d for i, d in enumerate(x.dims)])
        full, blend = x.like(x.dims, dtype=math), dict(alpha="alpha", beta="beta")
        rows = [(fold("max"), dict(x="x", y="top"), {}),
                (point("sub"), dict(x="x", b="top", y="shifted"), {}),
                (point("exp"), dict(x="shifted", y="raised"), {}),
                (fold("add"), dict(x="raised", y="total"), {})]
        inner = dict(top=thin, shifted=full, raised=full, total=thin)
        if self.algorithm == "log":
            return [*rows, (point("log"), dict(x="total", y="size"), {}),
                    (point("sub"), dict(x="shifted", b="size", y="y"), blend)], {**inner, "size": thin}
        return [*rows, (point("div"), dict(x="raised", b="total", y="y"), blend)], inner

    def reference(self, x):
        axes = self.axes(x.ndim)
        if not x.size:
            return {"y": x}
        shifted = x - x.max(axis=axes, keepdims=True)
        total = np.exp(shifted).sum(axis=axes, keepdims=True)
        return {"y": shifted - np.log(total) if self.algorithm == "log" else np.exp(shifted) / total}

    def magnitude(self, arrays, scalars, results):
        top, x = np.abs(results["y"]), np.abs(arrays["x"])
        spread = x + x.max(axis=self.axes(x.ndim), keepdims=True, initial=0)
        return {"y": top + spread if self.algorithm == "log" else top * (1 + spread)}

    def terms(self, x, y):
        return self.row(x)


@dataclass(frozen=True)
class SoftmaxBwd(Softmax, reads="y dy", writes="dx"):
    """dx = y * (dy - sum dy*y); for log dx = dy - exp(y) * sum dy. y is used exactly as passed.

    y, dy, dx of equal dims. Spec: v5 guide, cudnnSoftmaxBackward.
    """
    inplace = (("dx", "dy"),)

    def free_dims(self, words, options):
        return dict(y=words[0], dy=words[0], dx=words[0])

    def check(self, y, dy):
        yield from self.rules(y, "y")
        yield y.dims == dy.dims, f"dy must have dims {y.dims} like y; got {dy.dims}"

    def infer(self, y, dy):
        return {"dx": dy}

    def lower(self, descs, absent=()):
        y, math = descs["y"], BY_NAME[self.math]
        point = lambda mode: Pointwise(mode=mode, compute=self.unrounded)
        thin = TensorDesc.packed(math, [1 if i in self.axes(y.rank) else d for i, d in enumerate(y.dims)])
        full, blend = y.like(y.dims, dtype=math), dict(alpha="alpha", beta="beta")
        total = Reduction(mode="add", compute=self.unrounded)
        if self.algorithm == "log":
            rows = [(total, dict(x="dy", y="total"), {}), (point("exp"), dict(x="y", y="part"), {}),
                    (point("mul"), dict(x="part", b="total", y="share"), {}),
                    (point("sub"), dict(x="dy", b="share", y="dx"), blend)]
            return rows, dict(total=thin, part=full, share=full)
        rows = [(point("mul"), dict(x="dy", b="y", y="each"), {}), (total, dict(x="each", y="total"), {}),
                (point("sub"), dict(x="dy", b="total", y="rest"), {}),
                (point("mul"), dict(x="rest", b="y", y="dx"), blend)]
        return rows, dict(each=full, total=thin, rest=full)

    def reference(self, y, dy):
        axes = self.axes(y.ndim)
        if self.algorithm == "log":
            return {"dx": dy - np.exp(y) * dy.sum(axis=axes, keepdims=True)}
        return {"dx": y * (dy - (dy * y).sum(axis=axes, keepdims=True))}

    def magnitude(self, arrays, scalars, results):
        y, dy = arrays["y"], np.abs(arrays["dy"])
        axes = self.axes(y.ndim)
        if self.algorithm == "log":
            return {"dx": dy + np.exp(y) * (1 + np.abs(y)) * dy.sum(axis=axes, keepdims=True)}
        return {"dx": np.abs(y) * (dy + (dy * np.abs(y)).sum(axis=axes, keepdims=True))}

    def terms(self, y, dy, dx):
        return self.row(y)
