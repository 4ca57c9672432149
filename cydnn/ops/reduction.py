"""Reduction of one or more dims."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attribute import choice
from .op import SQUARES, Op

_ABS_MAX = lambda x, axes: np.abs(x).max(axis=axes, keepdims=True)

MODES = {                                        # name: (NumPy meaning, value of an empty reduction)
    "add": (lambda x, axes: x.sum(axis=axes, keepdims=True), 0.0),
    "mul": (lambda x, axes: x.prod(axis=axes, keepdims=True), 1.0),
    "min": (lambda x, axes: x.min(axis=axes, keepdims=True), np.inf),
    "max": (lambda x, axes: x.max(axis=axes, keepdims=True), -np.inf),
    "amax": (_ABS_MAX, 0.0),
    "avg": (lambda x, axes: x.mean(axis=axes, keepdims=True), np.nan),
    "norm1": (lambda x, axes: np.abs(x).sum(axis=axes, keepdims=True), 0.0),
    "norm2": (lambda x, axes: np.sqrt((x * x).sum(axis=axes, keepdims=True)), 0.0),
    "mul_no_zeros": (lambda x, axes: np.where(x == 0, 1.0, x).prod(axis=axes, keepdims=True), 1.0),
}


@dataclass(frozen=True)
class Reduction(Op, reads="x", writes="y"):
    """Reduce every dim in which y has size 1 and x has not. NaN in x gives NaN.

    x of any rank and strides; y of equal rank, each dim equal to x's or 1;
    y must be given (default: everything reduced).
    Spec: graph API, Reduction.
    """
    mode: str = choice(*MODES, api="REDUCTION_OPERATOR", members="REDUCE_TENSOR_{}", is_required=True,
                       doc="what is made of the elements")

    api = "REDUCTION"
    api_names = dict(x="OPERATION_REDUCTION_XDESC", y="OPERATION_REDUCTION_YDESC",
                     compute="REDUCTION_COMP_TYPE")

    @property
    def notes(self) -> tuple:
        return SQUARES if self.mode == "norm2" else ()

    def check(self, x):
        yield x.rank >= 1, f"x must have rank >= 1; got {x.rank}"

    def check_outputs(self, x, y):
        yield y is not None, "y must be given; which dims are reduced does not follow from x"
        yield y.rank == x.rank, f"y must have rank {x.rank} like x; got {y.rank}"
        yield (all(b in (a, 1) for a, b in zip(x.dims, y.dims)),
               f"y must have dims equal to those of x {x.dims} or 1; got {y.dims}")

    def admit(self, name, values):
        """Factors near 1, so that products of many stay within their type."""
        if not self.mode.startswith("mul") or name != "x":
            return values
        return np.sign(values) * np.exp2((np.clip(np.abs(values), 0, 1) - 0.5) / 8)

    def axes(self, x_dims, y_dims) -> tuple:
        return tuple(i for i, (a, b) in enumerate(zip(x_dims, y_dims)) if a != b)

    def reference(self, x, shapes):
        shape = shapes["y"]
        axes = self.axes(x.shape, shape)
        meaning, empty = MODES[self.mode]
        if not x.size:
            return {"y": np.full(shape, empty)}
        x = x.astype(np.float64) if self.mode == "mul" else x            # whole numbers of 64 bits would wrap
        return {"y": meaning(x, axes) if axes else meaning(x[None], (0,))[0]}

    def magnitude(self, arrays, scalars, results):
        if self.mode in ("add", "avg"):
            return self.evaluate({n: np.abs(a) for n, a in arrays.items()}, scalars)
        return super().magnitude(arrays, scalars, results)

    def terms(self, x, y):
        return x.count // max(y.count, 1)
