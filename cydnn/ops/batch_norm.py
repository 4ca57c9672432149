"""Batch normalization: training, inference, backward; statistics per channel (spatial) or per activation."""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

import numpy as np

from ..dtypes import BY_NAME
from ..tensor import TensorDesc
from .attribute import choice, integer
from .gen_stats import GenStats
from .made import Made
from .op import SQUARES, Op
from .peer_reduction import PeerReduction, admitted, met, peer_rules

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
        names = [o for o in self.operands() if o not in self.shared
                 and ("dy" in self.reads or o not in self.optional)]
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
class PeerBatchNorm(BatchNorm):
    """What training and its gradient share: parts of the batch may lie on other GPUs, which run the same
    operation (``peer_stats``: mailboxes, see PeerReduction)."""
    rank: int = integer(0, lo=0, doc="which of peer_stats is the own one")

    shared = frozenset(["peer_stats"])
    special = dict(peer_stats="statistics of several GPUs")

    def admit(self, name, values):
        return admitted(self, name, values) if name.startswith("peer_stats") else super().admit(name, values)

    def peer_rules(self, x, peer_stats):
        if peer_stats is None:
            yield not self.rank, f"rank must be 0 without peer_stats; got {self.rank}"
            return
        yield self.compute == "f32", f"compute must be f32 with peer_stats; got {self.compute}"
        yield from peer_rules("peer_stats", peer_stats, self.rank, prod(self.parameter_dims(x.dims)))

    def own_moments(self, made, x) -> tuple:
        """(mean, biased variance) of the own part: of channels around a first mean, so that one more read
        gives both and no spread is kept."""
        if self.mode != "spatial":
            return made.moments("own_mean", "own_variance")
        share, first = 1.0 / self.sums(x), made.fold("first_mean", "avg", "x")
        total = self.own_sum(made, "near_sum", made.point("near", "sub", "x", first))
        shift = made.point("shift", "identity", total, thin=True, alpha=share)
        second = made.point("second", "identity", "near_sum_squares", thin=True, alpha=share)
        apart = made.point("apart", "sub", second, made.point("shift_square", "mul", shift, shift, thin=True),
                           thin=True)
        mean = made.point("own_mean", "add", first, shift, thin=True)
        return mean, made.point("own_variance", "max", apart, 0.0, thin=True)

    def own_sum(self, made, name, x) -> str:
        """The sums of the own part: of channels in one read of what ``x`` is made of."""
        if self.mode != "spatial":
            return made.fold(name, "add", x)
        squares = f"{name}_squares"
        made.rows.append((GenStats(compute=made.compute), dict(x=x, sum=name, sq_sum=squares), {}))
        made.inner |= {name: made.thin, squares: made.thin}
        return name

    def exchange(self, made, mode, x, a, b, a_all, b_all) -> str:
        """The row by which two statistics become those of all peers; returns what counts their numbers."""
        op = PeerReduction(mode=mode, rank=self.rank, share=self.sums(x), compute=made.compute)
        count = f"{a_all}_count"
        made.rows.append((op, dict(a=a, b=b, peers="peer_stats", a_all=a_all, b_all=b_all, count=count), {}))
        made.inner |= {name: made.thin for name in (a_all, b_all, count)}
        return count

    def moments(self, x, peer_stats):
        """(mean, biased variance, how many numbers they are of), of all peers."""
        axes = self.axes(x.ndim)
        mean = x.mean(axis=axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        count = max(prod(x.shape[a] for a in axes), 1)
        return met("moments", self.rank, count, mean, var, peer_stats) if peer_stats else (mean, var, count)


@dataclass(frozen=True)
class BatchNormTraining(PeerBatchNorm, reads="x scale bias running_mean? running_var? peer_stats?*",
                        writes="y mean? rstd? next_running_mean? next_running_var?"):
    """y = scale * (x - mean) * rstd + bias with the statistics of the batch, of all GPUs where there are
    ``peer_stats``; rstd = 1 / sqrt(var + epsilon), var biased.

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
                     factor="OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC",
                     peer_stats="OPERATION_NORM_FWD_PEER_STAT_DESCS")
    scalars = dict(epsilon=1e-5, factor=1.0, alpha=1.0, beta=0.0)
    blends = dict(y=("alpha", "beta"))
    notes = SQUARES
    inplace = (("y", "x"), ("next_running_mean", "running_mean"), ("next_running_var", "running_var"))

    def check(self, x, scale, bias, running_mean, running_var, peer_stats):
        yield from self.parameter_rules(x, scale=scale, bias=bias,
                                        running_mean=running_mean, running_var=running_var)
        yield from together(running_mean=running_mean, running_var=running_var)
        yield from self.peer_rules(x, peer_stats)

    def infer(self, x, scale, bias, running_mean, running_var, peer_stats):
        stat = scale
        running = None if running_mean is None else stat
        return dict(y=x, mean=stat, rstd=stat, next_running_mean=running, next_running_var=running)

    def lower(self, descs, absent=()):
        made, x = self.made(descs["x"]), descs["x"]
        is_alone = not descs.get("peer_stats")
        if is_alone:
            mean, rstd, var = made.statistics()
        else:
            mean, rstd, var, total = self._of_all(made, x, descs.get("mean"))
        scaled = made.point("scaled", "mul", made.normal("normal", mean, rstd), "scale")
        made.point("y", "add", scaled, "bias", alpha="alpha", beta="beta")
        if "running_mean" not in absent:
            count = self.sums(x)
            if is_alone:
                wide = made.point("unbiased", "identity", var, thin=True, alpha=count / max(count - 1, 1))
            else:
                rest = made.point("rest", "max", made.point("less", "sub", total, 1.0, thin=True), 1.0,
                                  thin=True)
                whole = made.point("whole", "mul", var, total, thin=True)
                wide = made.point("unbiased", "div", whole, rest, thin=True)
            is_new = made.number("is_new", "cmp_eq", "factor", 1.0)
            for name, new in (("running_mean", mean), ("running_var", wide)):
                way = made.point(f"{name}_way", "sub", new, name, thin=True)
                step = made.point(f"{name}_step", "mul", way, "factor", thin=True)
                old = made.point(f"{name}_blend", "add", name, step, thin=True)
                made.point(f"next_{name}", "binary_select", new, old, is_new, thin=True)
        return made.finish([o for o in self.writes if o not in absent], descs)

    def _of_all(self, made, x, mean):
        """(mean, rstd, variance, count of numbers) of all peers. What does not lie as the messages do
        (``mean``, an output) is copied."""
        own, var = self.own_moments(made, x)
        is_plain = mean is None or mean.is_packed() and mean.dtype == made.thin.dtype
        found = "mean" if is_plain else "all_mean"
        count = self.exchange(made, "moments", x, own, var, found, "variance")
        if not is_plain:
            made.point("mean", "identity", found, thin=True)
        return found, made.rstd("variance"), "variance", count

    def reference(self, x, scale, bias, running_mean, running_var, peer_stats, epsilon, factor):
        mean, var, count = self.moments(x, peer_stats)
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
class BatchNormBwd(PeerBatchNorm, reads="x dy scale mean? rstd? peer_stats?*", writes="dx dscale dbias",
                   gradient_of=BatchNormTraining):
    """Gradients of BatchNormTraining. mean and rstd are recomputed from x (with epsilon) when absent.

    dbias = sum dy; dscale = sum dy * xhat; dx = scale * rstd * (dy - dbias/M - xhat * dscale/M).
    With ``peer_stats`` the sums and M are those of all GPUs, and dbias and dscale the sums by their number,
    as data parallel training averages gradients.
    Spec: graph API, BatchNormBackward; v5 guide, cudnnBatchNormalizationBackward.
    """
    api = "NORM_BACKWARD"
    api_names = dict(mode="OPERATION_NORM_BWD_MODE", x="OPERATION_NORM_BWD_XDESC",
                     dy="OPERATION_NORM_BWD_DYDESC", scale="OPERATION_NORM_BWD_SCALE_DESC",
                     mean="OPERATION_NORM_BWD_MEAN_DESC", rstd="OPERATION_NORM_BWD_INV_VARIANCE_DESC",
                     dx="OPERATION_NORM_BWD_DXDESC", dscale="OPERATION_NORM_BWD_DSCALE_DESC",
                     dbias="OPERATION_NORM_BWD_DBIAS_DESC", epsilon="OPERATION_NORM_BWD_EPSILON_DESC",
                     peer_stats="OPERATION_NORM_BWD_PEER_STAT_DESCS")
    scalars = dict(epsilon=1e-5, alpha=1.0, beta=0.0, alpha_param=1.0, beta_param=0.0)
    blends = dict(dx=("alpha", "beta"), dscale=("alpha_param", "beta_param"),
                  dbias=("alpha_param", "beta_param"))
    notes = SQUARES
    inplace = (("dx", "dy"), ("dx", "x"))

    def check(self, x, dy, scale, mean, rstd, peer_stats):
        yield x.dims == dy.dims, f"dy must have dims {x.dims} like x; got {dy.dims}"
        yield from self.parameter_rules(x, scale=scale, mean=mean, rstd=rstd)
        yield from together(mean=mean, rstd=rstd)
        yield from self.peer_rules(x, peer_stats)

    def infer(self, x, dy, scale, mean, rstd, peer_stats):
        stat = scale
        return dict(dx=x, dscale=stat, dbias=stat)

    def lower(self, descs, absent=()):
        made, x = self.made(descs["x"]), descs["x"]
        is_alone = not descs.get("peer_stats")
        mean, rstd = "mean", "rstd"
        if "mean" in absent:
            mean, rstd = made.statistics()[:2] if is_alone else self._statistics_of_all(made, x)
        fold = (lambda name, v: made.fold(name, "add", v)) if is_alone else partial(self.own_sum, made)
        bias = fold("sum", "dy")
        weight = fold("weighted", made.point("each", "mul", "dy", made.normal("normal", mean, rstd)))
        share = 1.0 / max(self.sums(x), 1)
        mean_of = lambda name, total: made.point(name, "identity", total, thin=True, alpha=share)
        if not is_alone:
            count = self.exchange(made, "sums", x, bias, weight, "all_sum", "all_weighted")
            bias, weight = "all_sum", "all_weighted"
            mean_of = lambda name, total: made.point(name, "div", total, count, thin=True)
        rest = made.point("rest", "sub", "dy", mean_of("mean_dy", bias))
        again = made.normal("again", mean, rstd)
        slope = made.point("slope", "mul", again, mean_of("mean_each", weight))
        factor = made.point("factor", "mul", "scale", rstd, thin=True)
        made.point("dx", "mul", made.point("turned", "sub", rest, slope), factor, alpha="alpha", beta="beta")
        for name, total in (("dbias", bias), ("dscale", weight)):
            if not is_alone:
                many = float(len(descs["peer_stats"]))
                total = made.point(f"{name}_average", "div", total, many, thin=True)
            made.point(name, "identity", total, thin=True, alpha="alpha_param", beta="beta_param")
        return made.finish(self.writes, descs)

    def _statistics_of_all(self, made, x) -> tuple:
        own, var = self.own_moments(made, x)
        self.exchange(made, "moments", x, own, var, "all_mean", "all_variance")
        return "all_mean", made.rstd("all_variance")

    def reference(self, x, dy, scale, mean, rstd, peer_stats, epsilon):
        axes = self.axes(x.ndim)
        count = max(prod(x.shape[a] for a in axes), 1)
        if mean is None:
            mean, var, _ = self.moments(x, peer_stats)
            rstd = 1.0 / np.sqrt(var + epsilon)
        xhat = (x - mean) * rstd
        dbias = dy.sum(axis=axes, keepdims=True)
        dscale = (dy * xhat).sum(axis=axes, keepdims=True)
        many = len(peer_stats or (None,))
        if peer_stats:
            dbias, dscale, count = met("sums", self.rank, count, dbias, dscale, peer_stats)
        dx = scale * rstd * (dy - dbias / count - xhat * dscale / count)
        return dict(dx=dx, dscale=dscale / many, dbias=dbias / many)

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
