"""Batch normalization: training, inference, backward; statistics per channel (spatial) or per activation."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .op import Op, choice

MODES = ("spatial", "per_activation")


@dataclass(frozen=True)
class BatchNorm(Op):
    """What the three share. Parameter tensors are (1, c, 1…) for spatial, (1, c, spatial…) for per_activation."""
    mode: str = choice(*MODES)
    takes_statistics: ClassVar[bool] = True

    def parameter_dims(self, x_dims) -> tuple:
        return (1, x_dims[1], *((1,) * (len(x_dims) - 2) if self.mode == "spatial" else x_dims[2:]))

    def axes(self, rank) -> tuple:
        return (0, *range(2, rank)) if self.mode == "spatial" else (0,)

    def parameter_rules(self, x, **parameters):
        yield 2 <= x.rank <= 5, f"x must have rank 2 to 5; got {x.rank}"
        yield x.count or not self.takes_statistics, f"x must not be empty: its statistics would be of nothing; got {x.dims}"
        want = self.parameter_dims(x.dims)
        for name, p in parameters.items():
            yield p is None or p.dims == want, f"{name} must have dims {want} for mode {self.mode}; got {p and p.dims}"

    def sums(self, x) -> int:
        return x.count // max(np.prod(self.parameter_dims(x.dims), dtype=int), 1)


@dataclass(frozen=True)
class BatchNormTraining(BatchNorm, reads="x scale bias running_mean? running_var?",
                        writes="y mean? rstd? next_running_mean? next_running_var?"):
    """y = scale * (x - mean) * rstd + bias with the statistics of the batch; rstd = 1 / sqrt(var + epsilon), var biased.

    next_running = (1 - factor) * running + factor * (mean or unbiased var); factor 1 does not read the old values.
    Spec: graph API, BatchNorm; v5 guide, cudnnBatchNormalizationForwardTraining.
    """
    scalars = dict(epsilon=1e-5, factor=1.0, alpha=1.0, beta=0.0)
    blends = dict(y=("alpha", "beta"))
    inplace = (("y", "x"), ("next_running_mean", "running_mean"), ("next_running_var", "running_var"))

    def check(self, x, scale, bias, running_mean, running_var):
        yield from self.parameter_rules(x, scale=scale, bias=bias, running_mean=running_mean, running_var=running_var)
        yield (running_mean is None) == (running_var is None), "running_mean and running_var must be given both or neither"

    def infer(self, x, scale, bias, running_mean, running_var):
        stat = scale.replace(uid=0, name="")
        running = None if running_mean is None else stat
        return dict(y=x.replace(uid=0, name=""), mean=stat, rstd=stat, next_running_mean=running, next_running_var=running)

    def reference(self, x, scale, bias, running_mean, running_var, epsilon, factor):
        axes = self.axes(x.ndim)
        count = max(int(np.prod([x.shape[a] for a in axes])), 1)
        mean = x.mean(axis=axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        rstd = 1.0 / np.sqrt(var + epsilon)
        unbiased = var * count / max(count - 1, 1)
        old_mean, old_var = (0.0, 0.0) if factor == 1 or running_mean is None else ((1 - factor) * running_mean, (1 - factor) * running_var)
        return dict(y=scale * (x - mean) * rstd + bias, mean=mean, rstd=rstd,
                    next_running_mean=old_mean + factor * mean, next_running_var=old_var + factor * unbiased)

    def magnitude(self, arrays, scalars, results):
        x, axes = arrays["x"], self.axes(arrays["x"].ndim)
        room = np.abs(x).max(axis=axes, keepdims=True)
        found = {n: np.abs(v) for n, v in results.items()}
        found["y"] = np.abs(arrays["scale"]) * (np.abs(x) + room) * results["rstd"] + np.abs(arrays["bias"])
        found["mean"] = np.abs(x).mean(axis=axes, keepdims=True)
        found["next_running_mean"] = found["mean"] + np.abs(results["next_running_mean"])
        found["rstd"] = results["rstd"] * (1 + room * results["rstd"])      # x - mean loses what x and mean have in common
        found["next_running_var"] = found["next_running_var"] + room / results["rstd"]
        return found

    def terms(self, x, **_):
        return self.sums(x)


@dataclass(frozen=True)
class BatchNormInference(BatchNorm, reads="x scale bias mean var", writes="y"):
    """y = scale * (x - mean) / sqrt(var + epsilon) + bias with given statistics. Spec: v5 guide, …ForwardInference."""
    scalars = dict(epsilon=1e-5, alpha=1.0, beta=0.0)
    inplace = (("y", "x"),)
    takes_statistics = False

    def check(self, x, scale, bias, mean, var):
        yield from self.parameter_rules(x, scale=scale, bias=bias, mean=mean, var=var)

    def infer(self, x, scale, bias, mean, var):
        return {"y": x.replace(uid=0, name="")}

    def reference(self, x, scale, bias, mean, var, epsilon):
        return {"y": scale * (x - mean) / np.sqrt(var + epsilon) + bias}

    def magnitude(self, arrays, scalars, results):
        x, mean = np.abs(arrays["x"]), np.abs(arrays["mean"])
        return {"y": np.abs(arrays["scale"]) * (x + mean) / np.sqrt(arrays["var"] + scalars["epsilon"]) + np.abs(arrays["bias"])}


@dataclass(frozen=True)
class BatchNormBwd(BatchNorm, reads="x dy scale mean? rstd?", writes="dx dscale dbias"):
    """Gradients of BatchNormTraining. mean and rstd are recomputed from x (with epsilon) when absent.

    dbias = sum dy; dscale = sum dy * xhat; dx = scale * rstd * (dy - dbias/M - xhat * dscale/M).
    Spec: graph API, BatchNormBackward; v5 guide, cudnnBatchNormalizationBackward.
    """
    scalars = dict(epsilon=1e-5, alpha=1.0, beta=0.0, alpha_param=1.0, beta_param=0.0)
    blends = dict(dx=("alpha", "beta"), dscale=("alpha_param", "beta_param"), dbias=("alpha_param", "beta_param"))
    inplace = (("dx", "dy"), ("dx", "x"))

    def check(self, x, dy, scale, mean, rstd):
        yield x.dims == dy.dims, f"dy must have dims {x.dims} like x; got {dy.dims}"
        yield from self.parameter_rules(x, scale=scale, mean=mean, rstd=rstd)
        yield (mean is None) == (rstd is None), "mean and rstd must be given both or neither"

    def infer(self, x, dy, scale, mean, rstd):
        stat = scale.replace(uid=0, name="")
        return dict(dx=x.replace(uid=0, name=""), dscale=stat, dbias=stat)

    def reference(self, x, dy, scale, mean, rstd, epsilon):
        axes = self.axes(x.ndim)
        count = max(int(np.prod([x.shape[a] for a in axes])), 1)
        if mean is None:
            mean = x.mean(axis=axes, keepdims=True)
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
        xhat = (x - mean) * rstd
        dbias = dy.sum(axis=axes, keepdims=True)
        dscale = (dy * xhat).sum(axis=axes, keepdims=True)
        return dict(dx=scale * rstd * (dy - dbias / count - xhat * dscale / count), dscale=dscale, dbias=dbias)

    def magnitude(self, arrays, scalars, results):
        x, dy, mean, rstd = (arrays.get(n) for n in ("x", "dy", "mean", "rstd"))
        axes = self.axes(x.ndim)
        if mean is None:
            mean = x.mean(axis=axes, keepdims=True)
            rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + scalars["epsilon"])
        count = max(x.size // max(mean.size, 1), 1)
        dy, wide = np.abs(dy), (np.abs(x) + np.abs(mean)) * rstd
        dbias, dscale = dy.sum(axis=axes, keepdims=True), (dy * wide).sum(axis=axes, keepdims=True)
        return dict(dx=np.abs(arrays["scale"]) * rstd * (dy * (1 + wide) + dbias / count + wide * dscale / count), dscale=dscale, dbias=dbias)

    def terms(self, x, **_):
        return self.sums(x)
