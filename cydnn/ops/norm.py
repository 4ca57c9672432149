"""Layer, RMS, instance and ada-layer normalization: forward and backward."""
from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice, integer
from .batch_norm import together
from .made import Made
from .op import SQUARES, Op

MODES = ("layer", "rms", "instance", "ada_layer")
MEMBERS = dict(layer="LAYER_NORM", rms="RMS_NORM", instance="INSTANCE_NORM", ada_layer="ADA_LAYER_NORM")
SQUARE, ROOT, MEAN = ("mul", "pow"), ("rsqrt", "reciprocal", "div"), ("avg", "add")


@dataclass(frozen=True)
class Norm(Op):
    """The base of the two: which dims are a row, and which have parameters of their own."""
    mode: str = choice(*MODES, members=MEMBERS, is_required=True, doc="layer, rms, instance or ada_layer")
    axis: int = integer(1, lo=1, doc="the first dim of a row; of instance 2")

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

    def settled(self, descs):
        scale = descs.get("scale")
        if scale is None or self.mode == "instance":
            return self
        wide = [i for i, d in enumerate(scale.dims) if i and d != 1]
        return replace(self, axis=wide[0] if wide else max(scale.rank - 1, 1))

    def shape_rules(self, x, **parameters):
        least = 3 if self.mode == "instance" else 2
        yield least <= x.rank <= 5, f"x must have rank {least} to 5 for mode {self.mode}; got {x.rank}"
        fits = self.mode == "instance" or self.axis < x.rank         # the axis may be that of the parameters
        for name, p in parameters.items():
            yield (fits or p is None or p.rank == x.rank,
                   f"{name} must have rank {x.rank} like x; got {p and p.rank}")
        yield fits, f"axis must be one of x's {x.rank} dims; got {self.axis}"
        yield x.count, f"x must not be empty: its statistics would be of nothing; got {x.dims}"
        want = self.parameter_dims(x.dims)
        for name, p in parameters.items():
            yield (p is None or p.dims == want,
                   f"{name} must have dims {want} for mode {self.mode}; got {p and p.dims}")

    def free_dtype(self, operand, dtype):
        image = ("x", "y", "dy", "dx")
        return "f32" if operand not in image and dtype in ("f16", "bf16") else dtype

    def count(self, x) -> int:
        """Elements of a row."""
        return prod(x.dims[a] for a in self.axes(x.rank))


@dataclass(frozen=True)
class NormFwd(Norm, reads="x scale? bias?", writes="y mean? rstd?"):
    """y = scale * (x - mean) * rstd + bias with the statistics of each row; rstd = 1 / sqrt(var + epsilon),
    var biased; mode rms takes no mean: rstd = 1 / sqrt(mean of squares + epsilon).

    x, y        any dims, rank 2 to 5, any strides
    rows        of layer, rms and ada_layer: all dims from ``axis`` on; of instance: dims 2 and following
    scale, bias (1, …, the dims of a row), of ada_layer n in front, of instance (1, c, 1, …)
    mean, rstd  x's dims with 1 in those of a row; rms has no mean
    Sums in the compute type. Spec: graph API, NormalizationForward.
    """
    api = "NORM_FORWARD"
    api_names = dict(mode="OPERATION_NORM_FWD_MODE", x="OPERATION_NORM_FWD_XDESC",
                     scale="OPERATION_NORM_FWD_SCALE_DESC", bias="OPERATION_NORM_FWD_BIAS_DESC",
                     y="OPERATION_NORM_FWD_YDESC", mean="OPERATION_NORM_FWD_MEAN_DESC",
                     rstd="OPERATION_NORM_FWD_INV_VARIANCE_DESC",
                     epsilon="OPERATION_NORM_FWD_EPSILON_DESC")
    scalars = dict(epsilon=1e-5)
    notes = SQUARES
    inplace = (("y", "x"),)

    def check(self, x, scale, bias):
        yield from self.shape_rules(x, scale=scale, bias=bias)

    def infer(self, x, scale, bias):
        stat = TensorDesc.packed(BY_NAME[self.math], self.thin(x.dims))
        return dict(y=x, mean=None if self.mode == "rms" else stat, rstd=stat)

    def check_outputs(self, x, scale, bias, y, mean, rstd):
        yield (self.mode != "rms" or mean is None,
               f"mean must be absent for mode rms; got {mean and mean.dims}")

    def free_dims(self, words, options):
        parameter = self.parameter_dims(words[0])
        return dict(x=words[0], y=words[0], scale=parameter, bias=parameter)

    def lower(self, descs, absent=()):
        return self._lowered(descs, absent, SQUARE[0], ROOT[0], MEAN[0])

    def spellings(self, descs, absent=()):
        return [self._lowered(descs, absent, *way) for way in product(SQUARE, ROOT, MEAN)]

    def _lowered(self, descs, absent, square, root, mean):
        """``square``, ``root``, ``mean``: how each is spelled."""
        x, math = descs["x"], BY_NAME[self.math]
        made = Made(self.unrounded, x.like(x.dims, dtype=math), TensorDesc.packed(math, self.thin(x.dims)))
        count = self.count(x)
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
        return self.count(x)


@dataclass(frozen=True)
class NormBwd(Norm, reads="x dy scale? mean? rstd?", writes="dx dscale? dbias?", gradient_of=NormFwd):
    """Gradients of NormFwd: with xhat = (x - mean) * rstd and g = scale * dy,
    dx = rstd * (g - avg g - xhat * avg(g * xhat)), averages over a row (of rms: without avg g);
    dscale = sum dy * xhat and dbias = sum dy over what a parameter is shared by.

    dims        as in NormFwd; dy, dx like x; dscale, dbias like scale
    mean, rstd  what the forward operation kept; recomputed from x (with epsilon) when absent
    Sums in the compute type. Spec: graph API, NormalizationBackward.
    """
    api = "NORM_BACKWARD"
    api_names = dict(mode="OPERATION_NORM_BWD_MODE", x="OPERATION_NORM_BWD_XDESC",
                     dy="OPERATION_NORM_BWD_DYDESC", scale="OPERATION_NORM_BWD_SCALE_DESC",
                     mean="OPERATION_NORM_BWD_MEAN_DESC", rstd="OPERATION_NORM_BWD_INV_VARIANCE_DESC",
                     dx="OPERATION_NORM_BWD_DXDESC", dscale="OPERATION_NORM_BWD_DSCALE_DESC",
                     dbias="OPERATION_NORM_BWD_DBIAS_DESC", epsilon="OPERATION_NORM_BWD_EPSILON_DESC")
    scalars = dict(epsilon=1e-5)
    notes = SQUARES
    inplace = (("dx", "dy"), ("dx", "x"))

    def check(self, x, dy, scale, mean, rstd):
        yield x.dims == dy.dims, f"dy must have dims {x.dims} like x; got {dy.dims}"
        yield from self.shape_rules(x, scale=scale)
        yield (self.mode != "rms" or mean is None,
               f"mean must be absent for mode rms; got {mean and mean.dims}")
        if self.mode != "rms":
            yield from together(mean=mean, rstd=rstd)
        want = self.thin(x.dims)
        for name, p in dict(mean=mean, rstd=rstd).items():
            yield (p is None or p.dims == want, f"{name} must have dims {want}; got {p and p.dims}")

    def infer(self, x, dy, scale, mean, rstd):
        packed = TensorDesc.packed(BY_NAME[self.math], self.parameter_dims(x.dims))
        return dict(dx=x, dscale=scale, dbias=packed if scale is None else scale)

    def check_outputs(self, x, dy, scale, mean, rstd, dx, dscale, dbias):
        yield (dscale is None or scale is not None,
               f"dscale must be absent, as scale is; got dims {dscale and dscale.dims}")

    def free_dims(self, words, options):
        parameter, thin = self.parameter_dims(words[0]), self.thin(words[0])
        found = dict(x=words[0], dy=words[0], scale=parameter, mean=thin, rstd=thin, dx=words[0],
                     dscale=parameter, dbias=parameter)
        return {name: d for name, d in found.items() if self.mode != "rms" or name not in ("mean", "dbias")}

    def admit(self, name, values):
        return np.abs(values) + 0.25 if name == "rstd" else values

    def lower(self, descs, absent=()):
        x, math = descs["x"], BY_NAME[self.math]
        made = Made(self.unrounded, x.like(x.dims, dtype=math), TensorDesc.packed(math, self.thin(x.dims)))
        mean, rstd = self._statistics(made, absent)
        normal = lambda name: made.normal(name, mean, rstd) if mean else made.point(name, "mul", "x", rstd)
        grad = lambda name: "dy" if "scale" in absent else made.point(name, "mul", "dy", "scale")
        middle = made.fold("mean_grad", "avg", grad("grad")) if mean else None
        share = made.fold("mean_each", "avg", made.point("each", "mul", grad("grad_each"), normal("normal")))
        slope = made.point("slope", "mul", normal("normal_again"), share)
        rest = grad("grad_again")
        rest = made.point("rest", "sub", rest, middle) if middle else rest
        made.point("dx", "mul", made.point("turned", "sub", rest, slope), rstd)
        if "dscale" not in absent:
            made.fold("dscale", "add", made.point("weighted", "mul", "dy", normal("normal_scale")))
        if "dbias" not in absent:
            made.fold("dbias", "add", "dy")
        return made.finish([o for o in self.writes if o not in absent], descs)

    def _statistics(self, made, absent) -> tuple:
        """(mean, rstd) as names, made from x where they are not given; rms has no mean."""
        if "rstd" not in absent:
            return None if self.mode == "rms" else "mean", "rstd"
        if self.mode != "rms":
            return made.statistics()[:2]
        return None, made.rstd(made.fold("variance", "avg", made.point("square", "mul", "x", "x")))

    def _shared(self, x) -> tuple:
        """The dims that a parameter is shared by."""
        return tuple(i for i, d in enumerate(self.parameter_dims(x.shape)) if d == 1)

    def reference(self, x, dy, scale, mean, rstd, epsilon):
        axes, shared = self.axes(x.ndim), self._shared(x)
        if mean is None:
            mean = 0.0 if self.mode == "rms" else x.mean(axis=axes, keepdims=True)
        if rstd is None:
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
        xhat, grad = (x - mean) * rstd, dy if scale is None else dy * scale
        middle = 0.0 if self.mode == "rms" else grad.mean(axis=axes, keepdims=True)
        share = (grad * xhat).mean(axis=axes, keepdims=True)
        return dict(dx=rstd * (grad - middle - xhat * share),
                    dscale=(dy * xhat).sum(axis=shared, keepdims=True),
                    dbias=dy.sum(axis=shared, keepdims=True))

    def magnitude(self, arrays, scalars, results):
        x, dy, scale, mean, rstd = (arrays.get(n) for n in self.reads)
        axes, shared = self.axes(x.ndim), self._shared(x)
        room, error = 0.0 if mean is None else np.abs(mean), 1.0
        if rstd is None:                         # x - mean loses what x and mean have in common
            middle = 0.0 if self.mode == "rms" else x.mean(axis=axes, keepdims=True)
            rstd = 1 / np.sqrt(((x - middle) ** 2).mean(axis=axes, keepdims=True) + scalars["epsilon"])
            room = np.abs(x).max(axis=axes, keepdims=True)
            error = 1 + room * rstd
        wide, dy = (np.abs(x) + room) * rstd * error, np.abs(dy)
        grad = dy if scale is None else dy * np.abs(scale)
        average = lambda values: values.mean(axis=axes, keepdims=True)
        return dict(dx=rstd * error * (grad + average(grad) + wide * average(grad * wide)),
                    dscale=(dy * wide).sum(axis=shared, keepdims=True),
                    dbias=dy.sum(axis=shared, keepdims=True))

    def terms(self, x, **_):
        return max(self.count(x), x.count // prod(self.parameter_dims(x.dims)))
