"""Scaled dot product attention: its gradients."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...tensor import TensorDesc
from .. import rows as dag
from ..attribute import integer, rows
from .adjoint import adjoint, known
from .attended import NAMES, Attended
from .sdpa import Sdpa


@dataclass(frozen=True)
class SdpaBwd(Attended, reads="q k v o do stats len_q? len_kv? sink? extras?*",
              writes="dq dk dv dbias? dsink? peak?",
              gradient_of=Sdpa):
    """The gradients of ``sdpa``, from what it read and wrote and the gradient of o. Of a query and a key that
    it sees:

        p  = exp(score(s) - stats)             s = scale * q @ k
        f  = what ``keep`` and ``drop`` make   the factors of the weights
        d  = p * (f * do @ v^T - sum(do * o))  the gradient of the score
        ds = scale * score_bwd(d)              of q @ k
        dq = ds @ k^T,  dk = q^T @ ds,  dv = (f * p)^T @ do,  dbias = the gradient of e<dbias_of>
        dsink = -sum(exp(sink - stats) * sum(do * o))
        peak = the largest |ds| of each query

    dk and dv add the heads that share them up, in their order, dbias what it is broadcast along: its dims are
    1 or those of the scores. Where a query sees no key, or stats is -inf, nothing is added; beyond len_q and
    len_kv gradients are 0, and what lies there reaches nothing.

    ``score_bwd``: rows over d, s and what ``score`` reads, the gradient of s (of ``score``: its own values
    first); without rows it is that of ``score``. ``dbias_of``: which extra dbias is the gradient of.
    Spec: graph API, Fused Flash Attention bprop; front end, sdpa_backward.
    """
    score_bwd: tuple = rows(("d", *NAMES), doc="the gradient of the scores; as score has it where empty")
    dbias_of: int = integer(-1, lo=-1, doc="the number of the tensor whose gradient dbias is; -1: none")
    asked = frozenset({"dbias", "dsink", "peak"})
    special = dict(Attended.special, peak="the largest gradients of scores")

    @property
    def back(self) -> tuple:
        """The rows that make ds of d."""
        return self.score_bwd or adjoint(self.score)

    @property
    def tensors_read(self) -> int:
        return max(super().tensors_read, dag.tensors_of(self.score_bwd))

    def check(self, q, k, v, o, do, stats, len_q, len_kv, sink, extras):
        yield from super().check(q, k, v, len_q, len_kv, extras, sink)
        yield q.dims[1] >= 1, f"q must have heads; got dims {q.dims}"
        want = (*q.dims[:3], v.dims[3])
        for name, d in dict(o=o, do=do).items():
            yield d.dims == want, f"{name} must have dims {want}; got {d.dims}"
        yield stats.dims == (*want[:3], 1), f"stats must have dims {(*want[:3], 1)}; got {stats.dims}"
        for op, _ in () if self.score_bwd and self.dbias_of < 0 else self.score:
            yield known(op.mode), f"score must be of modes whose gradient is known; got {op.mode}"
        yield (self.dbias_of < len(extras or ()),
               f"dbias_of must be the number of one of {len(extras or ())} extras; got {self.dbias_of}")

    def infer(self, q, k, v, **_):
        return dict(dq=q, dk=k, dv=v)

    def infer_asked(self, extras, sink, stats, **_):
        dbias = dict(dbias=extras[self.dbias_of]) if self.dbias_of >= 0 else {}
        return dict(dbias, dsink=sink, peak=stats)

    def check_outputs(self, q, k, sink, dbias, dsink, peak, **_):
        want = (*q.dims[:3], 1)
        yield peak is None or peak.dims == want, f"peak must have dims {want}; got {peak and peak.dims}"
        yield (dsink is None or sink is not None and dsink.dims == sink.dims,
               f"dsink must be the gradient of a sink, of its dims; got {dsink and dsink.dims}")
        space = self.space(q, k)
        yield ((dbias is None) == (self.dbias_of < 0),
               "dbias_of must be the number of an extra where dbias is written, else -1")
        fits = dbias is None or dbias.rank == 4 and all(n in (1, m) for n, m in zip(dbias.dims, space))
        yield fits, f"dbias must have dims that are 1 or those of {space}; got {dbias and dbias.dims}"

    def free_dims(self, words, options):
        q, k, v = words[:3]
        o = (*q[:3], v[3])
        return dict(q=q, k=k, v=v, o=o, do=o, stats=(*q[:3], 1), dq=q, dk=k, dv=v)

    def admit(self, name, values):
        if name == "stats":                      # no weight is far above 1
            return 8 + np.abs(values)
        limit = dict(q=0.5, k=0.5, sink=1, v=4, o=4, do=4).get(name)
        return np.clip(values, -limit, limit) if limit else super().admit(name, values)

    # ---- Its meaning ----

    def reference(self, q, k, v, o, do, stats, len_q, len_kv, sink, extras, scale, shapes, seed=0, offset=0):
        found = self._weighed(q, k, v, o, do, stats, len_q, len_kv, extras, scale, (seed, offset))
        return self._sums(*found, shapes.get("dbias")) | self._sunk(o, do, stats, sink, len_q)

    def _sunk(self, o, do, stats, sink, len_q, size=lambda x: -x) -> dict:
        """The gradient of the sinks; ``size``: what is made of each term."""
        if sink is None:
            return {}
        n_q, _ = self._lengths((*o.shape[:3], 0), len_q, None)
        there = (np.arange(o.shape[2])[:, None] < n_q) & (stats > -np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.exp(sink - stats) * (do * o).sum(3, keepdims=True)
        return dict(dsink=np.where(there, size(terms), 0.0).sum((0, 2), keepdims=True))

    def _weighed(self, q, k, v, o, do, stats, len_q, len_kv, extras, scale, draw=(0, 0), size=lambda x: x):
        """(q, k, do without what lies beyond the lengths, f * p, ds, the gradient of e<dbias_of>, v's heads).
        ``size``: what is made of terms and factors, the absolute value where errors are looked for."""
        n_q, n_kv = self._lengths(self._dims(q, k), len_q, len_kv)
        has_query, has_key = np.arange(q.shape[2])[:, None] < n_q, np.arange(k.shape[3]) < n_kv
        q, o, do, stats = (np.where(has_query, x, 0.0) for x in (q, o, do, stats))
        k, v = np.where(has_key, k, 0.0), np.where(has_key.swapaxes(2, 3), v, 0.0)
        scores, seen, values = self._scores(q, k, len_q, len_kv, extras, scale)
        with np.errstate(invalid="ignore", over="ignore"):
            p = np.where(seen & (stats != -np.inf), np.exp(scores - stats), 0.0)
            products = size(do) @ np.repeat(size(v), q.shape[1] // v.shape[1], 1).swapaxes(2, 3)
            factors = size(self._factors(scores.shape, values, *draw))
            products = np.where(factors != 0, factors * products, 0.0)
            sums = size(do * o).sum(3, keepdims=True)
            d = np.where(seen, p * (products + sums if size is np.abs else products - sums), 0.0)
            values = dict(d=d, **values)
            more = d if size is np.abs and self.score else 0.0         # where a mode's slope is a difference
            turned = lambda made: np.where(seen, size(dag.evaluate(made, values) + 0 * seen) + more, 0.0)
            ds = size(scale) * turned(self.back)
            db = turned(adjoint(self.score, f"e{self.dbias_of}")) if self.dbias_of >= 0 else None
        return size(q), size(k), size(do), factors * p, ds, db, v.shape[1]

    @staticmethod
    def _dims(q, k):
        return (*q.shape[:3], k.shape[3])

    @staticmethod
    def _sums(q, k, do, p, ds, db, heads_v, dbias) -> dict:
        shared = lambda x, heads: x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:]).sum(2)
        group = q.shape[1] // k.shape[1]
        turned = lambda x: x.swapaxes(2, 3)
        found = dict(dq=_product(ds, turned(np.repeat(k, group, 1))),
                     dk=shared(turned(_product(turned(ds), q)), k.shape[1]),
                     dv=shared(_product(turned(p), do), heads_v),
                     peak=np.abs(ds).max(3, keepdims=True, initial=0))
        if db is not None and dbias is not None:
            axes = tuple([axis for axis, size in enumerate(dbias) if size == 1])
            found["dbias"] = db.sum(axes, keepdims=True)
        return found

    def magnitude(self, arrays, scalars, results):
        given = {n: arrays.get(n) for n in self.reads if n != "sink"}
        scale, draw = scalars.get("scale", 1.0), (scalars.get("seed", 0), scalars.get("offset", 0))
        found = self._weighed(**given, scale=scale, draw=draw, size=np.abs)
        q, k = given["q"], given["k"]
        depth = np.abs(scale * q) @ np.repeat(np.abs(k), q.shape[1] // k.shape[1], 1)
        most = lambda x: x.max(initial=0, where=np.isfinite(x))
        spread = most(depth) + sum(most(np.abs(np.asarray(e, np.float64))) for e in given["extras"] or ())
        made = self._sums(*found, np.shape(results["dbias"]) if "dbias" in results else None)
        made |= self._sunk(np.abs(given["o"]), np.abs(given["do"]), given["stats"], arrays.get("sink"),
                           given["len_q"], np.abs)
        return {n: np.nan_to_num(value) * (1 + 8 * spread) for n, value in made.items()}

    def off(self, arrays, scalars, error) -> dict:
        """How far gradients are off where p, and ds before its scale, are as far off as ``error(p, ds)``."""
        given, scale = {n: arrays.get(n) for n in self.reads if n != "sink"}, scalars.get("scale", 1.0)
        draw = scalars.get("seed", 0), scalars.get("offset", 0)
        q, k, do, p, ds, _, heads_v = self._weighed(**given, scale=scale, draw=draw)
        off_p, off_ds = error(np.abs(p), ds / scale if scale else ds)
        return self._sums(*map(np.abs, (q, k, do)), off_p, abs(scale) * off_ds, None, heads_v, None)

    def inner_error(self, arrays, scalars, descs):
        """Weights below the least normal number may be 0."""
        least = np.finfo(np.float64 if self.math == "f64" else np.float32).tiny
        sums = sum(np.abs(arrays[n]).sum() for n in ("q", "k", "v", "do"))
        return dict.fromkeys(self.writes, least * (1 + np.nan_to_num(sums) ** 2))

    def terms(self, q, k, v, **_):
        return q.dims[3] + v.dims[3] + max(k.dims[3], q.dims[1] * q.dims[2])

    def flops(self, q, k, v, **_):
        return 2 * self.pairs(self.space(q, k)) * (3 * q.dims[3] + 2 * v.dims[3])


def _product(x, y):
    """x @ y, but that a factor of 0 adds nothing: what is not seen reaches nothing, be it no number."""
    if np.isfinite(y).all() and np.isfinite(x).all():
        return x @ y
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(x[..., None] != 0, x[..., None] * y[:, :, None], 0.0).sum(3)
