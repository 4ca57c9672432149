"""Batch normalization in parts: what stands between the sums of a convolution's output and the scale and bias
of the next prologue, and the same of the gradient."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice
from .made import Made
from .op import Op


def _thin(x) -> TensorDesc:
    """One for each channel."""
    return TensorDesc.packed("f32", (1, x.dims[1], *(1,) * (x.rank - 2)))


def _channel_rules(first: str, want: tuple, **descs):
    for name, d in descs.items():
        yield (d is None or d.dims == want,
               f"{name} must have dims {want} like {first}; got {d and d.dims}")


@dataclass(frozen=True)
class BnFinalize(Op, reads="sum sq_sum scale bias running_mean? running_var? count",
                 writes="eq_scale eq_bias mean? rstd? next_running_mean? next_running_var?"):
    """Statistics of channels from their sums, and the normalization as one scale and bias a channel.

    mean = sum / count; var = sq_sum / count - mean^2, at least 0; rstd = 1 / sqrt(var + epsilon)
    eq_scale = scale * rstd; eq_bias = bias - mean * eq_scale
    next_running_mean = (1 - factor) * running_mean + factor * mean; of var times count / (count - 1)

    all (1, c, 1…) but count, which has one element: how many numbers a sum is of, above 1
    Spec: graph API, BnFinalizeStatistics.
    """
    mode: str = choice("training", api="OPERATION_BN_FINALIZE_STATS_MODE", is_required=True,
                       members=dict(training="BN_FINALIZE_STATISTICS_TRAINING"),
                       doc="what the statistics are of")

    api = "BN_FINALIZE_STATISTICS"
    api_names = {name: f"OPERATION_BN_FINALIZE_{word}" for name, word in dict(
        compute="MATH_PREC", sum="Y_SUM_DESC", sq_sum="Y_SQ_SUM_DESC", scale="SCALE_DESC", bias="BIAS_DESC",
        running_mean="PREV_RUNNING_MEAN_DESC", running_var="PREV_RUNNING_VAR_DESC", count="ACCUM_COUNT_DESC",
        next_running_mean="UPDATED_RUNNING_MEAN_DESC", next_running_var="UPDATED_RUNNING_VAR_DESC",
        mean="SAVED_MEAN_DESC", rstd="SAVED_INV_STD_DESC", eq_scale="EQ_SCALE_DESC", eq_bias="EQ_BIAS_DESC",
        epsilon="EPSILON_DESC", factor="EXP_AVERATE_FACTOR_DESC").items()}
    scalars = dict(epsilon=1e-5, factor=1.0)
    by_value = frozenset(["count"])
    fixed = frozenset(["count"])
    inplace = (("next_running_mean", "running_mean"), ("next_running_var", "running_var"))

    def check(self, sum, sq_sum, scale, bias, running_mean, running_var, count):
        yield sum.rank >= 2, f"sum must have rank >= 2; got {sum.rank}"
        yield from _channel_rules("sum", sum.dims, sq_sum=sq_sum, scale=scale, bias=bias,
                                  running_mean=running_mean, running_var=running_var)
        yield ((running_mean is None) == (running_var is None),
               "running_mean and running_var must be given together; got one of them")
        one = (1,) * sum.rank
        yield count.dims == one, f"count must have dims {one}; got {count.dims}"

    def infer(self, sum, running_mean, **others):
        running = None if running_mean is None else sum
        return dict(eq_scale=sum, eq_bias=sum, mean=sum, rstd=sum, next_running_mean=running,
                    next_running_var=running)

    def check_outputs(self, running_mean, next_running_mean, next_running_var, **others):
        for name, d in (("next_running_mean", next_running_mean), ("next_running_var", next_running_var)):
            yield (d is None or running_mean is not None,
                   f"{name} must be absent, as running_mean is; got dims {d and d.dims}")

    def lower(self, descs, absent=()):
        thin = TensorDesc.packed(BY_NAME[self.math], descs["sum"].dims)
        made = Made(self.unrounded, thin, thin)
        mean = made.point("mean", "div", "sum", "count", thin=True)
        second = made.point("second", "div", "sq_sum", "count", thin=True)
        square = made.point("square", "mul", mean, mean, thin=True)
        spread = made.point("spread", "sub", second, square, thin=True)
        var = made.point("var", "max", spread, 0.0, thin=True)
        factor = made.point("eq_scale", "mul", "scale", made.rstd(var), thin=True)
        made.point("eq_bias", "sub", "bias", made.point("shift", "mul", mean, factor, thin=True), thin=True)
        if {"next_running_mean", "next_running_var"} - set(absent):
            rest = made.number("rest", "sub", "count", 1.0)
            whole = made.point("whole", "mul", var, "count", thin=True)
            wide = made.point("wide", "div", whole, rest, thin=True)
            keep = made.number("keep", "sub", 1.0, "factor")
            for name, new in (("mean", mean), ("var", wide)):
                old = made.point(f"old_{name}", "mul", f"running_{name}", keep, thin=True)
                step = made.point(f"step_{name}", "mul", new, "factor", thin=True)
                made.point(f"next_running_{name}", "add", old, step, thin=True)
        return made.finish([o for o in self.writes if o not in absent], descs)

    def reference(self, sum, sq_sum, scale, bias, running_mean, running_var, count, epsilon, factor):
        mean = sum / count
        var = np.maximum(sq_sum / count - mean ** 2, 0)
        rstd = 1 / np.sqrt(var + epsilon)
        found = dict(eq_scale=scale * rstd, eq_bias=bias - mean * scale * rstd, mean=mean, rstd=rstd)
        if running_mean is not None:
            wide = var * count / (count - 1)
            found |= dict(next_running_mean=(1 - factor) * running_mean + factor * mean,
                          next_running_var=(1 - factor) * running_var + factor * wide)
        return found

    def magnitude(self, arrays, scalars, results):
        a = {n: np.abs(v) for n, v in arrays.items() if v is not None}
        mean, room = a["sum"] / a["count"], a["sq_sum"] / a["count"] + (a["sum"] / a["count"]) ** 2
        rstd = results["rstd"] * (1 + room * results["rstd"] ** 2)
        scale = a["scale"] * rstd
        found = dict(eq_scale=scale, eq_bias=a["bias"] + mean * scale, mean=mean, rstd=rstd)
        if "running_mean" in a:
            keep, step = abs(1 - scalars["factor"]), abs(scalars["factor"])
            most = a["count"] / (a["count"] - 1)
            found |= dict(next_running_mean=keep * a["running_mean"] + step * mean,
                          next_running_var=keep * a["running_var"] + step * room * most)
        return found

    def terms(self, **descs):
        return 4

    def admit(self, name, values):
        """Sums of 64 numbers that spread."""
        return np.full(values.shape, 64.0) if name == "count" else (
            np.abs(values) + 1 if name in ("sq_sum", "running_var") else values)


@dataclass(frozen=True)
class BnBackwardWeights(Op, reads="dy x mean rstd scale",
                        writes="dscale dbias eq_dy_scale eq_x_scale eq_bias"):
    """Gradients of scale and bias, and that of x as one blend a channel:
    dx = eq_dy_scale * dy + eq_x_scale * x + eq_bias.

    dbias = sum dy; dscale = sum dy * (x - mean) * rstd, over m images and positions
    eq_dy_scale = scale * rstd; eq_x_scale = -eq_dy_scale * rstd * dscale / m;
    eq_bias = -eq_dy_scale * dbias / m - mean * eq_x_scale
    dy, x (n, c, spatial…), the rest (1, c, 1…). Spec: graph API, BnBwdWeights.
    """
    api = "BN_BWD_WEIGHTS"
    api_names = {name: f"OPERATION_BN_BWD_WEIGHTS_{word}" for name, word in dict(
        compute="MATH_PREC", mean="MEAN_DESC", rstd="INVSTD_DESC", scale="BN_SCALE_DESC", x="X_DESC",
        dy="DY_DESC", dscale="DBN_SCALE_DESC", dbias="DBN_BIAS_DESC", eq_dy_scale="EQ_DY_SCALE_DESC",
        eq_x_scale="EQ_X_SCALE_DESC", eq_bias="EQ_BIAS").items()}
    scalars = {}

    def check(self, dy, x, mean, rstd, scale):
        yield x.rank >= 2, f"x must have rank >= 2; got {x.rank}"
        yield dy.dims == x.dims, f"dy must have dims {x.dims} like x; got {dy.dims}"
        yield x.count > 0, f"x must not be empty: its sums would be of nothing; got {x.dims}"
        yield from _channel_rules("the channels of x", _thin(x).dims, mean=mean, rstd=rstd, scale=scale)

    def infer(self, dy, x, mean, rstd, scale):
        return dict.fromkeys(self.writes, scale)

    def lower(self, descs, absent=()):
        x, share = descs["x"], self._share(descs["x"])
        math = BY_NAME[self.math]
        made = Made(self.unrounded, x.like(x.dims, dtype=math), _thin(x).replace(dtype=math))
        bias = made.fold("dbias", "add", "dy")
        each = made.point("each", "mul", "dy", made.normal("normal", "mean", "rstd"))
        weight = made.fold("dscale", "add", each)
        first = made.point("eq_dy_scale", "mul", "scale", "rstd", thin=True)
        rate = made.point("rate", "mul", first, "rstd", thin=True)
        slope = made.point("slope", "mul", rate, weight, thin=True)
        second = made.point("eq_x_scale", "identity", slope, thin=True, alpha=-share)
        level = made.point("level", "mul", first, bias, thin=True)
        part = made.point("part", "identity", level, thin=True, alpha=-share)
        made.point("eq_bias", "sub", part, made.point("shift", "mul", "mean", second, thin=True), thin=True)
        return made.finish(self.writes, descs)

    @staticmethod
    def _share(x) -> float:
        return x.dims[1] / max(x.count, 1)

    def reference(self, dy, x, mean, rstd, scale):
        axes = (0, *range(2, x.ndim))
        fold = lambda v: v.sum(axis=axes, keepdims=True)
        share = x.shape[1] / x.size
        dbias, dscale = fold(dy), fold(dy * (x - mean) * rstd)
        first = scale * rstd
        second = -first * rstd * dscale * share
        return dict(dscale=dscale, dbias=dbias, eq_dy_scale=first, eq_x_scale=second,
                    eq_bias=-first * dbias * share - mean * second)

    def magnitude(self, arrays, scalars, results):
        a = {n: np.abs(v) for n, v in arrays.items()}
        axes, share = (0, *range(2, a["x"].ndim)), a["x"].shape[1] / a["x"].size
        dbias = a["dy"].sum(axis=axes, keepdims=True)
        dscale = (a["dy"] * (a["x"] + a["mean"]) * a["rstd"]).sum(axis=axes, keepdims=True)
        first = a["scale"] * a["rstd"]
        second = first * a["rstd"] * dscale * share
        return dict(dscale=dscale, dbias=dbias, eq_dy_scale=first, eq_x_scale=second,
                    eq_bias=first * dbias * share + a["mean"] * second)

    def terms(self, x, **_):
        return max(x.count // max(x.c, 1), 1)
