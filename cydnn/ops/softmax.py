"""Softmax and its gradient: three algorithms, two modes."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from .op import Op, choice

ALGORITHMS = ("accurate", "fast", "log")
MODES = ("channel", "instance")


def _axes(mode, rank):
    return (1,) if mode == "channel" else tuple(range(1, rank))


def _row(op, x):
    return prod(x.dims[i] for i in _axes(op.mode, x.rank))


@dataclass(frozen=True)
class SoftmaxFwd(Op, reads="x", writes="y"):
    """Softmax over all c at one (n, position) (mode channel) or over c and all positions of an image (instance).

    x, y of equal dims, rank >= 2, any strides. algorithm "accurate" subtracts the maximum, "fast" may, "log" is log-softmax.
    Spec: v5 guide, cudnnSoftmaxForward.
    """
    algorithm: str = choice(*ALGORITHMS)
    mode: str = choice(*MODES)
    inplace = (("y", "x"),)

    def check(self, x):
        yield 2 <= x.rank <= 8, f"x must have rank 2 to 8; got {x.rank}"

    def infer(self, x):
        return {"y": x.replace(uid=0, name="")}

    def reference(self, x):
        axes = _axes(self.mode, x.ndim)
        if not x.size:
            return {"y": x}
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shifted = x - x.max(axis=axes, keepdims=True)
            total = np.exp(shifted).sum(axis=axes, keepdims=True)
            return {"y": shifted - np.log(total) if self.algorithm == "log" else np.exp(shifted) / total}

    def magnitude(self, arrays, scalars, results):
        top = np.abs(results["y"])
        spread = np.abs(arrays["x"]) + np.abs(arrays["x"]).max(axis=_axes(self.mode, arrays["x"].ndim), keepdims=True)
        return {"y": top + spread if self.algorithm == "log" else top * (1 + spread)}

    def terms(self, x, y):
        return _row(self, x)


@dataclass(frozen=True)
class SoftmaxBwd(Op, reads="y dy", writes="dx"):
    """dx = y * (dy - sum dy*y); for log dx = dy - exp(y) * sum dy. y is used exactly as passed.

    y, dy, dx of equal dims. Spec: v5 guide, cudnnSoftmaxBackward.
    """
    algorithm: str = choice(*ALGORITHMS)
    mode: str = choice(*MODES)
    inplace = (("dx", "dy"),)

    def check(self, y, dy):
        yield 2 <= y.rank <= 8, f"y must have rank 2 to 8; got {y.rank}"
        yield y.dims == dy.dims, f"dy must have dims {y.dims} like y; got {dy.dims}"

    def infer(self, y, dy):
        return {"dx": dy.replace(uid=0, name="")}

    def reference(self, y, dy):
        axes = _axes(self.mode, y.ndim)
        if self.algorithm == "log":
            return {"dx": dy - np.exp(y) * dy.sum(axis=axes, keepdims=True)}
        return {"dx": y * (dy - (dy * y).sum(axis=axes, keepdims=True))}

    def magnitude(self, arrays, scalars, results):
        y, dy = arrays["y"], np.abs(arrays["dy"])
        axes = _axes(self.mode, y.ndim)
        if self.algorithm == "log":
            return {"dx": dy + np.exp(y) * (1 + np.abs(y)) * dy.sum(axis=axes, keepdims=True)}
        return {"dx": np.abs(y) * (dy + (dy * np.abs(y)).sum(axis=axes, keepdims=True))}

    def terms(self, y, dy, dx):
        return _row(self, y)
