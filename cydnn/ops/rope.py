"""Rotary embedding of attention's queries and keys, and its gradient."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attribute import choice, flag
from .op import Op

PAIRINGS = ("half", "interleaved")


@dataclass(frozen=True)
class Rope(Op, reads="x cos sin", writes="y"):
    """Pairs of a row's elements, turned: y1 = x1 * cos - x2 * sin, y2 = x2 * cos + x1 * sin.

    x, y      (…, s, d), rank 2 to 8, any strides
    cos, sin  (…, s, r) with 2 * r <= d, other dims those of x or 1; elements behind the first 2 * r stay
    half: element i of the first r and element i + r are a pair; interleaved: 2 * i and 2 * i + 1.
    inverse: the other way round, which is the gradient: dx of dy.
    """
    pairing: str = choice(*PAIRINGS, doc="which elements are a pair")
    inverse: bool = flag(doc="turned back")

    scalars = {}
    inplace = (("y", "x"),)

    def check(self, x, cos, sin):
        yield x.rank >= 2, f"x must have rank >= 2; got {x.rank}"
        yield cos.rank == x.rank, f"cos must have rank {x.rank} like x; got {cos.rank}"
        yield cos.dims == sin.dims, f"sin must have dims {cos.dims} like cos; got {sin.dims}"
        yield (all(c in (1, n) for c, n in zip(cos.dims[:-1], x.dims[:-1])),
               f"cos must have dims 1 or those of x {x.dims} but the last; got {cos.dims}")
        yield 2 * cos.dims[-1] <= x.dims[-1], (f"cos must have at most half as many elements a row as x, "
                                               f"{x.dims[-1] // 2}; got {cos.dims[-1]}")

    def infer(self, x, cos, sin):
        return dict(y=x)

    def pairs(self, r) -> tuple:
        """(first, second) elements of the pairs of a row."""
        return (slice(0, r), slice(r, 2 * r)) if self.pairing == "half" else (slice(0, 2 * r, 2),
                                                                           slice(1, 2 * r, 2))

    def reference(self, x, cos, sin):
        first, second = self.pairs(cos.shape[-1])
        sin, y = -sin if self.inverse else sin, np.array(x, np.float64)
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return dict(y=y)

    def magnitude(self, arrays, scalars, results):
        x, cos, sin = (np.abs(arrays[n]) for n in ("x", "cos", "sin"))
        first, second = self.pairs(cos.shape[-1])
        y = np.array(x, np.float64)
        y[..., first] = x[..., first] * cos + x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return dict(y=y)

    def terms(self, **descs):
        return 2
