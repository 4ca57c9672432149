"""Batch normalization: training, inference, backward; statistics per channel (spatial) or per activation."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice
from .made import Made
from .op import SQUARES, Op

MODES = ("spatial", "per_activation")


def together(**pair):
    """The rule of two operands of which one is nothing without the other."""
    absent, given = sorted(pair, key=lambda name: pair[name] is not None)
    yield (pair[absent] is None) == (pair[given] is None), f"{absent} must be given, as {given} is; got none"


@dataclass(frozen=True)
class BatchNorm(Op):
    """The base of the three. Parameter tensors are
    (1, c, 1…) for spatial, (1, c, spatial…) for per_activation."""
    mode: str = choice(*MODES, members=dict(spatial="BATCH_NORM"), is_required=True,
                       doc="statistics of each channel, or of each element of an image")
    takes_statistics: ClassVar[bool] = True

    def parameter_dims(self, x_dims) -> tuple:
        return (1, x_dims[1], *((1,) * (len(x_dims) - 2) if self.mode == "spatial" else x_dims[2:]))

    def axes(self, rank) -> tuple:
        return (0, *range(2, rank)) if self.mode == "spatial" else (0,)

    def parameter_rules(self, x, **parameters):
        yield 2 <= x.rank <= 5, f"x must have rank 2 to 5; got {x.rank}"
        yield (x.count or not self.takes_statistics,
               f"x must not be empty: its statistics would be of nothing; got {x.dims}")
        want = self.parameter_dims(x.dims)
        for name, p in parameters.items():
            yield (p is None or p.dims == want,
                   f"{name} must have dims {want} for mode {self.mode}; got {p and p.dims}")

    def free_dims(self, words, options):
        parameters, image = self.parameter_dims(words[0]), ("x", "y", "dy", "dx")
        names = [o for o in self.operands() if "dy" in self.reads or o not in self.optional]
        return {name: words[0] if name in image else parameters for name in names}

    def free_dtype(self, operand, dtype):
        return "f32" if operand not in ("x", "y", "dy", "dx") and dtype in ("f16", "bf16") else dtype

    def admit(self, name, values):
        return np.abs(values) + 0.25 if name in ("var", "running_var", "rstd") else values

    def sums(self, x) -> int:
        return x.count // max(prod(self.parameter_dims(x.dims)), 1)

    def made(self, x) -> Made:
        """An empty list of the operations that this one is made of."""
        math = BY_NAME[self.math]
        thin = TensorDesc.packed(math, self.parameter_dims(x.dims))
        return Made(self.unrounded, x.like(x.dims, dtype=math), thin)


@dataclass(frozen=True)
class BatchNormTraining(BatchNorm, reads="x scale bias running_mean? running_var?",
                        writes="y mean? rstd? next_running_mean? next_running_var?"):
    """y = scale * (x - mean) * rstd + bias with the statistics of the batch;
    rstd = 1 / sqrt(var + epsilon), var biased.

    next_running = (1 - factor) * running + factor * (mean or unbiased var);
    factor 1 does not read the old values.
    Spec: graph API, BatchNorm; v5 guide, cudnnBatchNormalizationForwardTraining.
    """
    api = "NORM_FORWARD"
    api_names = dict(mode="OPERATION_NORM_FWD_MODE", x="OPERATION_NORM_FWD_XDESC",
                     scale="OPERATION_NORM_FWD_SCALE_DESC", bias="OPERATION_NORM_FWD_BIAS_DESC",
                     y="OPERATION_NORM_FWD_YDESC",
                     running_mean="OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC",
                     running_var="OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC",
                     mean="OPERATION_NORM_FWD_MEAN_DESC", rstd="OPERATION_NORM_FWD_INV_VARIANCE_DESC",
                     next_running_mean="OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC",
                     next_running_var="OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC",
                     epsilon="OPERATION_NORM_FWD_EPSILON_DESC",
                     factor="OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC")
    scalars = dict(epsilon=1e-5, factor=1.0, alpha=1.0, beta=0.0)
    blends = dict(y=("alpha", "beta"))
    notes = SQUARES
    inplace = (("y", "x"), ("next_running_mean", "running_mean"), ("next_running_var", "running_var"))

    def check(self, x, scale, bias, running_mean, running_var):
        yield from self.parameter_rules(x, scale=scale, bias=bias,
                                        running_mean=running_mean, running_var=running_var)
        yield from together(running_mean=running_mean, running_var=running_var)

    def infer(self, x, scale, bias, running_mean, running_var):
        stat = scale
        running = None if running_mean is None else stat
        return dict(y=x, mean=stat, rstd=stat, next_running_mean=running, next_running_var=running)

    def lower(self, descs, absent=()):
        made = self.made(descs["x"])
        mean, rstd, var = made.statistics()
        scaled = made.point("scaled", "mul", made.normal("normal", mean, rstd), "scale")
        made.point("y", "add", scaled, "bias", alpha="alpha", beta="beta")
        if "running_mean" not in absent:
            count = self.sums(descs["x"])
            wide = made.point("unbiased", "identity", var, thin=True, alpha=count / max(count - 1, 1))
            is_new = made.number("is_new", "cmp_eq", "factor", 1.0)
            for name, new in (("running_mean", mean), ("running_var", wide)):
                way = made.point(f"{name}_way", "sub", new, name, thin=True)
                step = made.point(f"{name}_step", "mul", way, "factor", thin=True)
                old = made.point(f"{name}_blend", "add", name, step, thin=True)
                made.point(f"next_{name}", "binary_select", new, old, is_new, thin=True)
        return made.finish([o for o in self.writes if o not in absent], descs)

    def reference(self, x, scale, bias, running_mean, running_var, epsilon, factor):
        axes = self.axes(x.ndim)
        count = max(prod(x.shape[a] for a in axes), 1)
        mean = x.mean(axis=axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        rstd = 1.0 / np.sqrt(var + epsilon)
        unbiased = var * count / max(count - 1, 1)
        old_mean = old_var = 0.0
        if factor != 1 and running_mean is not None:
            old_mean, old_var = (1 - factor) * running_mean, (1 - factor) * running_var
        return dict(y=scale * (x - mean) * rstd + bias, mean=mean, rstd=rstd,
                    next_running_mean=old_mean + factor * mean, next_running_var=old_var + factor * unbiased)

    def magnitude(self, arrays, scalars, results):
        x, axes = arrays["x"], self.axes(arrays["x"].ndim)
        room = np.abs(x).max(axis=axes, keepdims=True)
        found = {n: np.abs(v) for n, v in results.items()}
        found["y"] = np.abs(arrays["scale"]) * (np.abs(x) + room) * results["rstd"] + np.abs(arrays["bias"])
        found["mean"] = np.abs(x).mean(axis=axes, keepdims=True)
        found["next_running_mean"] = found["mean"] + np.abs(results["next_running_mean"])
        # x - mean loses what x and mean have in common.
        found["rstd"] = results["rstd"] * (1 + room * results["rstd"])
        found["next_running_var"] = found["next_running_var"] + room / results["rstd"]
        return found

    def terms(self, x, **_):
        return self.sums(x)

    def moved_bytes(self, x, **others):
        """x is read twice."""
        return super().moved_bytes(x=x, again=x, **others)


@dataclass(frozen=True)
class BatchNormInference(BatchNorm, reads="x scale bias mean var", writes="y"):
    """y = scale * (x - mean) / sqrt(var + epsilon) + bias with given statistics.
    Spec: v5 guide, …ForwardInference."""
    scalars = dict(epsilon=1e-5, alpha=1.0, beta=0.0)
    inplace = (("y", "x"),)
    takes_statistics = False

    def check(self, x, scale, bias, mean, var):
        yield from self.parameter_rules(x, scale=scale, bias=bias, mean=mean, var=var)

    def infer(self, x, scale, bias, mean, var):
        return {"y": x}

    def lower(self, descs, absent=()):
        made = self.made(descs["x"])
        rstd = made.rstd("var")
        scaled = made.point("scaled", "mul", made.normal("normal", "mean", rstd), "scale")
        made.point("y", "add", scaled, "bias", alpha="alpha", beta="beta")
        return made.finish(self.writes, descs)

    def reference(self, x, scale, bias, mean, var, epsilon):
        return {"y": scale * (x - mean) / np.sqrt(var + epsilon) + bias}

    def magnitude(self, arrays, scalars, results):
        x, mean, scale, bias = (np.abs(arrays[name]) for name in ("x", "mean", "scale", "bias"))
        return {"y": scale * (x + mean) / np.sqrt(arrays["var"] + scalars["epsilon"]) + bias}


@dataclass(frozen=True)
class BatchNormBwd(BatchNorm, reads="x dy scale mean? rstd?", writes="dx dscale dbias",
                   gradient_of=BatchNormTraining):
    """Gradients of BatchNormTraining. mean and rstd are recomputed from x (with epsilon) when absent.

    dbias = sum dy; dscale = sum dy * xhat; dx = scale * rstd * (dy - dbias/M - xhat * dscale/M).
    Spec: graph API, BatchNormBackward; v5 guide, cudnnBatchNormalizationBackward.
    """
    api = "NORM_BACKWARD"
    api_names = dict(mode="OPERATION_NORM_BWD_MODE", x="OPERATION_NORM_BWD_XDESC",
                     dy="OPERATION_NORM_BWD_DYDESC", scale="OPERATION_NORM_BWD_SCALE_DESC",
                     mean="OPERATION_NORM_BWD_MEAN_DESC", rstd="OPERATION_NORM_BWD_INV_VARIANCE_DESC",
                     dx="OPERATION_NORM_BWD_DXDESC", dscale="OPERATION_NORM_BWD_DSCALE_DESC",
                     dbias="OPERATION_NORM_BWD_DBIAS_DESC", epsilon="OPERATION_NORM_BWD_EPSILON_DESC")
    scalars = dict(epsilon=1e-5, alpha=1.0, beta=0.0, alpha_param=1.0, beta_param=0.0)
    blends = dict(dx=("alpha", "beta"), dscale=("alpha_param", "beta_param"),
                  dbias=("alpha_param", "beta_param"))
    notes = SQUARES
    inplace = (("dx", "dy"), ("dx", "x"))

    def check(self, x, dy, scale, mean, rstd):
        yield x.dims == dy.dims, f"dy must have dims {x.dims} like x; got {dy.dims}"
        yield from self.parameter_rules(x, scale=scale, mean=mean, rstd=rstd)
        yield from together(mean=mean, rstd=rstd)

    def infer(self, x, dy, scale, mean, rstd):
        stat = scale
        return dict(dx=x, dscale=stat, dbias=stat)

    def lower(self, descs, absent=()):
        made, share = self.made(descs["x"]), 1.0 / max(self.sums(descs["x"]), 1)
        mean, rstd = made.statistics()[:2] if "mean" in absent else ("mean", "rstd")
        bias = made.fold("sum", "add", "dy")
        each = made.point("each", "mul", "dy", made.normal("normal", mean, rstd))
        weight = made.fold("weighted", "add", each)
        mean_dy = made.point("mean_dy", "identity", bias, thin=True, alpha=share)
        rest = made.point("rest", "sub", "dy", mean_dy)
        again = made.normal("again", mean, rstd)
        mean_each = made.point("mean_each", "identity", weight, thin=True, alpha=share)
        slope = made.point("slope", "mul", again, mean_each)
        factor = made.point("factor", "mul", "scale", rstd, thin=True)
        made.point("dx", "mul", made.point("turned", "sub", rest, slope), factor, alpha="alpha", beta="beta")
        made.point("dbias", "identity", bias, thin=True, alpha="alpha_param", beta="beta_param")
        made.point("dscale", "identity", weight, thin=True, alpha="alpha_param", beta="beta_param")
        return made.finish(self.writes, descs)

    def reference(self, x, dy, scale, mean, rstd, epsilon):
        axes = self.axes(x.ndim)
        count = max(prod(x.shape[a] for a in axes), 1)
        if mean is None:
            mean = x.mean(axis=axes, keepdims=True)
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
        xhat = (x - mean) * rstd
        dbias = dy.sum(axis=axes, keepdims=True)
        dscale = (dy * xhat).sum(axis=axes, keepdims=True)
        dx = scale * rstd * (dy - dbias / count - xhat * dscale / count)
        return dict(dx=dx, dscale=dscale, dbias=dbias)

    def magnitude(self, arrays, scalars, results):
        x, dy, mean, rstd = (arrays.get(n) for n in ("x", "dy", "mean", "rstd"))
        axes = self.axes(x.ndim)
        if mean is None:
            mean = x.mean(axis=axes, keepdims=True)
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + scalars["epsilon"])
        count = max(x.size // max(mean.size, 1), 1)
        dy, wide = np.abs(dy), (np.abs(x) + np.abs(mean)) * rstd
        dbias, dscale = dy.sum(axis=axes, keepdims=True), (dy * wide).sum(axis=axes, keepdims=True)
        dx = np.abs(arrays["scale"]) * rstd * (dy * (1 + wide) + dbias / count + wide * dscale / count)
        return dict(dx=dx, dscale=dscale, dbias=dbias)

    def terms(self, x, **_):
        return self.sums(x)

    def moved_bytes(self, x, dy, **others):
        """x and dy are read twice."""
        return super().moved_bytes(x=(x, x), dy=(dy, dy), **others)
