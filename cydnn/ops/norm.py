"""Layer, RMS, instance and ada-layer normalization: forward."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice, integer
from .made import Made
from .op import SQUARES, Op

MODES = ("layer", "rms", "instance", "ada_layer")
MEMBERS = dict(layer="LAYER_NORM", rms="RMS_NORM", instance="INSTANCE_NORM", ada_layer="ADA_LAYER_NORM")
SQUARE, ROOT, MEAN = ("mul", "pow"), ("rsqrt", "reciprocal", "div"), ("avg", "add")


@dataclass(frozen=True)
class NormFwd(Op, reads="x scale? bias?", writes="y mean? rstd?"):
    """y = scale * (x - mean) * rstd + bias with the statistics of each row; rstd = 1 / sqrt(var + epsilon),
    var biased; mode rms takes no mean: rstd = 1 / sqrt(mean of squares + epsilon).

    x, y        any dims, rank 2 to 5, any strides
    rows        of layer, rms and ada_layer: all dims from ``axis`` on; of instance: dims 2 and following
    scale, bias (1, …, the dims of a row), of ada_layer n in front, of instance (1, c, 1, …)
    mean, rstd  x's dims with 1 in those of a row; rms has no mean
    Sums in the compute type. Spec: graph API, NormalizationForward.
    """
    mode: str = choice(*MODES, members=MEMBERS)
    axis: int = integer(1, lo=1, doc="the first dim of a row; of instance 2")
    scalars = dict(epsilon=1e-5)
    notes = SQUARES

    def axes(self, rank) -> tuple:
        """The dims that a row runs over."""
        return tuple(range(2 if self.mode == "instance" else self.axis, rank))

    def thin(self, x_dims) -> tuple:
        """Dims of what there is one of a row."""
        return tuple(1 if i in self.axes(len(x_dims)) else d for i, d in enumerate(x_dims))

    def parameter_dims(self, x_dims) -> tuple:
        if self.mode == "instance":
            return (1, x_dims[1], *(1,) * (len(x_dims) - 2))
        first = x_dims[0] if self.mode == "ada_layer" else 1
        return (first, *(d if i in self.axes(len(x_dims)) else 1 for i, d in enumerate(x_dims) if i))

    def check(self, x, scale, bias):
        least = 3 if self.mode == "instance" else self.axis + 1
        yield least <= x.rank <= 5, f"x must have rank {least} to 5; got {x.rank}"
        yield x.count, f"x must not be empty: its statistics would be of nothing; got {x.dims}"
        want = self.parameter_dims(x.dims)
        for name, p in dict(scale=scale, bias=bias).items():
            yield (p is None or p.dims == want,
                   f"{name} must have dims {want} for mode {self.mode}; got {p and p.dims}")

    def infer(self, x, scale, bias):
        stat = TensorDesc.packed(BY_NAME[self.math], self.thin(x.dims))
        return dict(y=x, mean=None if self.mode == "rms" else stat, rstd=stat)

    def check_outputs(self, x, scale, bias, y, mean, rstd):
        yield (self.mode != "rms" or mean is None,
               f"mean must be absent for mode rms; got {mean and mean.dims}")

    def free_dims(self, words, options):
        parameter = self.parameter_dims(words[0])
        return dict(x=words[0], y=words[0], scale=parameter, bias=parameter)

    def free_dtype(self, operand, dtype):
        return "f32" if operand not in ("x", "y") and dtype in ("f16", "bf16") else dtype

    def lower(self, descs, absent=()):
        return self._lowered(descs, absent, SQUARE[0], ROOT[0], MEAN[0])

    def spellings(self, descs, absent=()):
        return [self._lowered(descs, absent, *way) for way in product(SQUARE, ROOT, MEAN)]

    def _lowered(self, descs, absent, square, root, mean):
        """``square``, ``root``, ``mean``: how each is spelled."""
        x, math = descs["x"], BY_NAME[self.math]
        made = Made(self.unrounded, x.like(x.dims, dtype=math), TensorDesc.packed(math, self.thin(x.dims)))
        count = prod(x.dims[a] for a in self.axes(x.rank))
        average = lambda name, of: made.fold(name, "avg", of) if mean == "avg" else made.point(
            name, "mul", made.fold(f"{name}_total", "add", of), 1.0 / count, thin=True)
        squared = lambda of: made.point("square", *(("mul", of, of) if square == "mul" else ("pow", of, 2.0)))
        middle = None if self.mode == "rms" else average("mean", "x")
        apart = lambda name: "x" if middle is None else made.point(name, "sub", "x", middle)
        variance = average("variance", squared(apart("spread")))
        least = made.point("least", "add", variance, "epsilon", thin=True)
        last = ["mul"] * ("scale" not in absent) + ["add"] * ("bias" not in absent)
        names = [*(f"part{i}" for i in range(len(last))), "y"]
        if root == "div":
            deviation = made.point("deviation", "sqrt", least, thin=True)
            made.point(names[0], "div", apart("apart"), deviation)
            if "rstd" not in absent:
                made.point("rstd", "reciprocal", deviation, thin=True)
        else:
            rstd = made.point("rstd", "rsqrt", least, thin=True) if root == "rsqrt" else made.point(
                "rstd", "reciprocal", made.point("deviation", "sqrt", least, thin=True), thin=True)
            made.point(names[0], "mul", apart("apart"), rstd)
        parameters = [name for name in ("scale", "bias") if name not in absent]
        for name, before, mode, parameter in zip(names[1:], names, last, parameters):
            made.point(name, mode, before, parameter)
        return made.finish([o for o in self.writes if o not in absent], descs)

    def reference(self, x, scale, bias, epsilon):
        axes = self.axes(x.ndim)
        mean = 0.0 if self.mode == "rms" else x.mean(axis=axes, keepdims=True)
        rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
        y = (x - mean) * rstd
        y = y if scale is None else y * scale
        found = dict(y=y if bias is None else y + bias, rstd=rstd)
        return found if self.mode == "rms" else {**found, "mean": mean}

    def magnitude(self, arrays, scalars, results):
        x, axes = np.abs(arrays["x"]), self.axes(arrays["x"].ndim)
        room = x.max(axis=axes, keepdims=True)
        factor, rest = (arrays.get(name) for name in ("scale", "bias"))
        y = (x + (0 if self.mode == "rms" else room)) * results["rstd"]
        y = y if factor is None else y * np.abs(factor)
        found = dict(y=y if rest is None else y + np.abs(rest), rstd=results["rstd"])
        if self.mode != "rms":                   # x - mean loses what x and mean have in common
            found |= dict(mean=x.mean(axis=axes, keepdims=True),
                          rstd=results["rstd"] * (1 + room * results["rstd"]))
        return found

    def terms(self, x, **_):
        return prod(x.dims[a] for a in self.axes(x.rank))
