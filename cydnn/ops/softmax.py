"""Softmax and its gradient: three algorithms, two modes."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice, integer
from .made import Made
from .op import Op
from .pointwise import Pointwise
from .reduction import Reduction

ALGORITHMS = ("accurate", "fast", "log")
MODES = ("channel", "instance")
STATISTICS = ("top", "total", "stats")


@dataclass(frozen=True)
class Softmax(Op):
    """The base of both directions: the dims of a row."""
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
class SoftmaxFwd(Softmax, reads="x", writes="y top? total? stats?"):
    """Softmax over all c at one (n, position) (mode channel)
    or over c and all positions of an image (instance).

    x, y   equal dims, rank >= 2, any strides
    top    the maximum of each row; total the sum of exp(x - top); stats = top + log(total), the log of the
           sum of exp(x): x's dims with 1 in those of a row. What backward passes keep
    algorithm "accurate" subtracts the maximum, "fast" may, "log" is log-softmax.
    Spec: v5 guide, cudnnSoftmaxForward; graph API, fused attention (softmax statistics).
    """
    blends, asked = dict(y=("alpha", "beta")), frozenset(STATISTICS)
    inplace = (("y", "x"),)

    def thin(self, x) -> TensorDesc:
        """What there is one of a row."""
        dims = [1 if i in self.axes(x.rank) else d for i, d in enumerate(x.dims)]
        return TensorDesc.packed(BY_NAME[self.math], dims)

    def check(self, x):
        return self.rules(x, "x")

    def infer(self, x):
        return {"y": x}

    def infer_asked(self, x):
        return dict.fromkeys(STATISTICS, self.thin(x))

    def check_outputs(self, x, y, **statistics):
        want = self.thin(x).dims
        for name, d in statistics.items():
            yield d is None or d.dims == want, f"{name} must have dims {want}; got {d and d.dims}"

    def lower(self, descs, absent=STATISTICS):
        x, thin = descs["x"], self.thin(descs["x"])
        made = Made(self.unrounded, x.like(x.dims, dtype=thin.dtype), thin)
        top = made.fold("top", "max", "x")
        shifted = made.point("shifted", "sub", "x", top)
        raised = made.point("raised", "exp", shifted)
        total, blend = made.fold("total", "add", raised), dict(alpha="alpha", beta="beta")
        if self.algorithm == "log" or "stats" not in absent:
            size = made.point("size", "log", total, thin=True)
        if self.algorithm == "log":
            made.point("y", "sub", shifted, size, **blend)
        else:
            made.point("y", "div", raised, total, **blend)
        if "stats" not in absent:
            made.point("stats", "add", size, top, thin=True)
        return made.finish([o for o in self.writes if o not in absent], descs)

    def reference(self, x):
        axes, x = self.axes(x.ndim), np.asarray(x, np.float64)
        top = x.max(axis=axes, keepdims=True, initial=-np.inf)
        shifted = x - top
        total = np.exp(shifted).sum(axis=axes, keepdims=True)
        with np.errstate(divide="ignore"):
            size = np.log(total)
        return dict(y=shifted - size if self.algorithm == "log" else np.exp(shifted) / total, top=top,
                    total=total, stats=size + top)

    def magnitude(self, arrays, scalars, results):
        top, x = np.abs(results["y"]), np.abs(arrays["x"])
        most = x.max(axis=self.axes(x.ndim), keepdims=True, initial=0)
        spread, total = x + most, np.abs(results["total"])
        return {"y": top + spread if self.algorithm == "log" else top * (1 + spread), "top": most,
                "total": total * (1 + 2 * most), "stats": 1 + most + np.abs(results["stats"])}

    def terms(self, x, **_):
        return self.row(x)


@dataclass(frozen=True)
class SoftmaxBwd(Softmax, reads="y dy", writes="dx", gradient_of=SoftmaxFwd):
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
