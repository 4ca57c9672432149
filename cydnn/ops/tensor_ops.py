"""The v5 tensor operations: transform, add, op, set, scale.
Spec: v5 guide, cudnnTransformTensor to cudnnScaleTensor."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attribute import choice
from .op import Op


@dataclass(frozen=True)
class Transform(Op, reads="x", writes="y"):
    """y = alpha * x + beta * y between any two layouts and types of equal dims. x and y must not overlap."""

    def infer(self, x):
        return {"y": x}

    def reference(self, x):
        return {"y": x}


@dataclass(frozen=True)
class AddTensor(Op, reads="a", writes="c"):
    """c = alpha * a + beta * c; every dim of a equals c's or is 1."""
    scalars = dict(alpha=1.0, beta=1.0)
    inplace = (("c", "a"),)

    def check_outputs(self, a, c):
        yield c is not None, "c must be given"
        yield a.rank == c.rank, f"a must have rank {c.rank} like c; got {a.rank}"
        yield (all(i in (j, 1) for i, j in zip(a.dims, c.dims)),
               f"a must have dims equal to those of c {c.dims} or 1; got {a.dims}")

    def reference(self, a, shapes):
        return {"c": np.broadcast_to(a, shapes["c"])}


OP_MODES = {                                     # name: (meaning where NaN propagates, where it is ignored)
    "add": (np.add, np.add),
    "mul": (np.multiply, np.multiply),
    "min": (np.minimum, np.fmin),
    "max": (np.maximum, np.fmax),
}


@dataclass(frozen=True)
class OpTensor(Op, reads="a b", writes="c"):
    """c = op(alpha1 * a, alpha2 * b) + beta * c; a has c's dims, every dim of b equals c's or is 1."""
    mode: str = choice(*OP_MODES)
    nan: str = choice("ignore", "propagate")
    scalars = dict(alpha1=1.0, alpha2=1.0, beta=0.0)
    blends = dict(c=(None, "beta"))
    inplace = (("c", "a"), ("c", "b"))

    def check(self, a, b):
        yield a.rank == b.rank, f"b must have rank {a.rank} like a; got {b.rank}"
        yield (all(j in (i, 1) for i, j in zip(a.dims, b.dims)),
               f"b must have dims equal to those of a {a.dims} or 1; got {b.dims}")

    def infer(self, a, b):
        return {"c": a}

    def reference(self, a, b, alpha1, alpha2):
        return {"c": OP_MODES[self.mode][self.nan == "ignore"](alpha1 * a, alpha2 * b)}

    def magnitude(self, arrays, scalars, results):
        total = np.abs(scalars["alpha1"] * arrays["a"]) + np.abs(scalars["alpha2"] * arrays["b"])
        return {"c": total if self.mode == "add" else np.abs(results["c"])}


@dataclass(frozen=True)
class SetTensor(Op, reads="", writes="y"):
    """Every element of y becomes ``value``, converted to y's type; gaps between elements are not written."""
    scalars = dict(value=0.0)

    def check_outputs(self, y):
        yield y is not None, "y must be given"

    def reference(self, value, shapes):
        return {"y": np.full(shapes["y"], value)}


@dataclass(frozen=True)
class ScaleTensor(Op, reads="", writes="y"):
    """y = alpha * y; y is always read."""
    scalars = dict(alpha=1.0)
    blends = {}
    keeps = frozenset(["y"])

    def check_outputs(self, y):
        yield y is not None, "y must be given"

    def reference(self, y, alpha):
        return {"y": alpha * y}
