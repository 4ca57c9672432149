"""Scaled dot product attention: forward."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...dtypes import BY_NAME
from ...tensor import TensorDesc
from .. import rows as dag
from ..attribute import choice, integer
from ..made import Made
from ..matmul import Matmul
from ..pointwise import Pointwise
from .attended import BLOCK, COORDINATES, NAMES, Attended


@dataclass(frozen=True)
class Sdpa(Attended, reads="q k v len_q? len_kv? sink? table_k? table_v? blocks? extras?*",
           writes="o stats? score_max? score_sum_exp?"):
    """o = softmax(score(scale * q @ k)) @ v over the keys that a query sees.

    q       (b, h, s_q, d_qk)
    k       (b, h_k, d_qk, s_kv)     transposed, as strides may say; h_k divides h: heads side by side share
    v       (b, h_v, s_kv, d_v)      h_v divides h
    len_q, len_kv (b, 1, 1, 1) i32   how many queries and keys each batch has; all where absent
    sink    (1, h, 1, 1)             a score more of each query, of no key: it takes part in the sum alone
    table_k, table_v (b, 1, n, 1) i32   pages of each batch: then k is (pages, h_k, d_qk, keys of a page),
                                     v alike, and s_kv is ``max_kv``, or 0: what n pages hold
    blocks  (b, h, s_q / 128, s_kv / 1024) u8, rounded up: a bit for each block of 128 queries and keys, the
                                     lowest first: 0 hides it; b and h may be 1
    extras  e0, e1 … of ``score`` and ``keep``: each dim 1 or that of (b, h, s_q, s_kv); also numbers given
                                     at execute
    o       (b, h, s_q, d_v)
    stats   (b, h, s_q, 1) f32       log of the sum of exp of the scores; -inf where a query sees no key
    score_max, score_sum_exp         alike: the largest score, and the sum of exp of scores less that

    ``score``: rows over s (scale * q @ k), batch, head, row, col, e0 …, numbers and n0 … (ops/rows.py).
    ``left``: a query sees keys from its diagonal less left - 1 on, 0: all; ``right``: up to its diagonal and
    so many, -1: all. ``diagonal``: it begins at the first query and key, or ends at the last ones. A query
    that sees no key, or is beyond len_q, has o = 0, or NaN as 0 / 0 where ``empty`` is nan. Sums in the
    compute type. What lies beyond len_kv reaches nothing, whatever it holds; a NaN or an infinity in a value
    that only the bounds hide may, where engines multiply it by 0.

    Behind the softmax weights are multiplied by what ``keep`` makes, rows over batch, head, row, col, e0 …;
    and with ``drop`` by 0 where ``rng`` of (b, h, s_q, s_kv), of the same seed and offset and of probability
    1 - drop, has 0, else by 1 / (1 - drop). The statistics know nothing of it.
    Spec: graph API, Fused Flash Attention fprop; front end, sdpa.
    """
    empty: str = choice("zero", "nan", doc="o of a query that sees no key")
    max_kv: int = integer(0, lo=0, doc="keys of a batch where they lie in pages; 0: all that pages hold")
    asked = frozenset({"stats", "score_max", "score_sum_exp"})
    special = dict(Attended.special, sink="attention with a sink", blocks="a mask of blocks",
                   table_k="keys in pages", table_v="keys in pages",
                   score_max="sums of scores apart", score_sum_exp="sums of scores apart")

    def keys(self, k, table_k=None):
        if table_k is None:
            return k.dims[3]
        return self.max_kv or table_k.dims[2] * k.dims[3]

    def check(self, q, k, v, table_k, table_v, blocks=None, **others):
        both = (table_k is None) == (table_v is None)
        yield both, "table_v must be given with table_k, and the other way round; got one"
        yield (table_k is not None or not self.max_kv,
               f"max_kv must not be given without table_k; got {self.max_kv}")
        yield from super().check(q=q, k=k, v=v, table_k=table_k, **others)
        space = self.space(q, k, table_k)
        want = (*space[:2], -(-space[2] // BLOCK), -(-space[3] // (8 * BLOCK)))
        fits = blocks is None or blocks.rank == 4 and blocks.dtype.name == "u8" and all(
            n == m or n == 1 and axis < 2 for axis, (n, m) in enumerate(zip(blocks.dims, want)))
        yield fits, f"blocks must be u8 of dims {want}, batch and heads perhaps 1; got {blocks}"
        for name, d, block in (("table_k", table_k, k.dims[3]), ("table_v", table_v, v.dims[2])):
            if d is not None:
                n = d.dims[2] if d.rank == 4 else 0
                yield (d.dims == (q.dims[0], 1, n, 1) and d.dtype.name == "i32",
                       f"{name} must be i32 of dims ({q.dims[0]}, 1, pages, 1); got {d}")
                yield (n * block >= self.keys(k, table_k),
                       f"{name} must name pages of {self.keys(k, table_k)} keys; got {n} of {block}")

    def infer(self, q, v, **_):
        return {"o": TensorDesc.packed(q.dtype, (*q.dims[:3], v.dims[3]))}

    def infer_asked(self, q, **_):
        return dict.fromkeys(sorted(self.asked), TensorDesc.packed("f32", (*q.dims[:3], 1)))

    def check_outputs(self, q, stats, score_max, score_sum_exp, **_):
        want = (*q.dims[:3], 1)
        for name, d in dict(stats=stats, score_max=score_max, score_sum_exp=score_sum_exp).items():
            yield d is None or d.dims == want, f"{name} must have dims {want}; got {d and d.dims}"

    def free_dims(self, words, options):
        q, k, v = words[:3]
        return dict(q=q, k=k, v=v, o=(*q[:3], v[3]))

    # ---- What it is made of ----

    def lower(self, descs, absent=(*special, "len_q", "len_kv", "stats")):
        """None where no heads share some: that is no product; nor with what is ``special``."""
        q, k, v = descs["q"], descs["k"], descs["v"]
        if self.drop or self.keep or not self.special.keys() & {*self.operands()} <= {*absent}:
            return None
        if not q.dims[1] and {k.dims[1], v.dims[1]} != {1}:
            return None
        full = TensorDesc.packed(BY_NAME[self.math], self.space(q, k))
        made = Made(self.unrounded, full, TensorDesc.packed(full.dtype, (*full.dims[:3], 1)))
        made.rows.append((Matmul(compute=self.unrounded), dict(a="q", b="k", c="s"), dict(alpha="scale")))
        made.inner["s"] = full
        for axis, name in enumerate(COORDINATES):
            made.point(name, "gen_index", "s", axis=axis)
        last, seen = self._scored(made, descs.get("extras") or ()), self._seen(made, q, k, absent)
        scores = made.point("masked", "binary_select", last, float("-inf"), seen) if seen else last
        top = made.fold("top", "max", scores)
        base = top if self.empty == "nan" and "stats" in absent else made.point(
            "base", "binary_select", top, 0.0, made.point(
                "has_keys", "cmp_neq", top, float("-inf"), thin=True), thin=True)
        raised = made.point("raised", "exp", made.point("shifted", "sub", scores, base))
        total = made.fold("total", "add", raised)
        safe = total if self.empty == "nan" else made.point("safe", "binary_select", total, 1.0, made.point(
            "has_sum", "cmp_neq", total, 0.0, thin=True), thin=True)
        weights = made.point("weights", "div", raised, safe)
        values = "v" if "len_kv" in absent else self._values(made, v)
        made.rows.append((Matmul(compute=self.unrounded), dict(a=weights, b=values, c="o"), {}))
        if "stats" not in absent:
            made.point("stats", "add", made.point("size", "log", total, thin=True), base, thin=True)
        return self._used(*made.finish([o for o in self.writes if o not in absent and o != "o"], descs))

    def _scored(self, made: Made, extras) -> str:
        """The rows, each in the dims of what it reads; the last one in those of the scores."""
        names = {name: name for name in NAMES} | {f"e{i}": f"extras.{i}" for i in range(len(extras))}
        dims = dict.fromkeys(NAMES, made.full.dims) | {f"extras.{i}": d.dims for i, d in enumerate(extras)}
        for row in dag.lowered(self.score, names, self.unrounded, "score"):
            read = [dims[name] for name in row[1].values() if name in dims] or [(1,) * made.full.rank]
            name = row[1]["y"]
            dims[name] = tuple([0 if 0 in sizes else max(sizes) for sizes in zip(*read)])
            made.rows.append(row)
            made.inner[name] = TensorDesc.packed(made.full.dtype, dims[name])
        last = "score" if self.score else "s"
        if dims[last] == made.full.dims:
            return last
        return made.point("score_of_all", "binary_select", last, last, "row")    # whatever the row

    @staticmethod
    def _used(rows_, inner) -> tuple:
        """Without coordinates that nothing reads."""
        for name in COORDINATES:
            others = [read for _, read, _ in rows_ if read.get("y") != name]
            if not any(name in read.values() for read in others):
                rows_ = [row for row in rows_ if row[1].get("y") != name]
                inner = {n: d for n, d in inner.items() if n != name}
        return rows_, inner

    def _seen(self, made: Made, q, k, absent) -> str | None:
        """1 where a query sees a key; None where it sees all."""
        lens = {name: name for name in ("len_q", "len_kv") if name not in absent}
        ends = [made.point(f"below_{name}", "cmp_lt", at, name)
                for name, at in (("len_q", "row"), ("len_kv", "col")) if name in lens]
        if self.left or self.right >= 0:
            way = made.point("way", "sub", "col", "row")         # from the diagonal of the top left
            if self.diagonal == "bottom_right":
                n_q, n_kv = (self._cut(made, name, size, q.dims[0]) if name in lens else float(size)
                             for name, size in (("len_q", q.dims[2]), ("len_kv", k.dims[3])))
                way = made.point("way_from_end", "sub", made.point("way_q", "add", way, n_q), n_kv)
            if self.left:
                ends.append(made.point("inside", "cmp_gt", way, float(-self.left)))
            if self.right >= 0:
                ends.append(made.point("outside", "cmp_le", way, float(self.right)))
        seen = ends[0] if ends else None
        for i, one in enumerate(ends[1:]):
            seen = made.point(f"seen{i}", "logical_and", seen, one)
        return seen

    @staticmethod
    def _cut(made: Made, name: str, most: int, batches: int) -> str:
        """A length, no more than there is."""
        made.point(f"{name}_least", "max", name, 0.0)
        made.point(f"{name}_cut", "min", f"{name}_least", float(most))
        thin = TensorDesc.packed(made.full.dtype, (batches, 1, 1, 1))
        made.inner |= {f"{name}_least": thin, f"{name}_cut": thin}
        return f"{name}_cut"

    @staticmethod
    def _values(made: Made, v) -> str:
        """v, 0 beyond len_kv: 0 times what lies there may be NaN."""
        made.point("value", "gen_index", "v", axis=2)
        made.point("has_value", "cmp_lt", "value", "len_kv")
        made.point("values", "binary_select", "v", 0.0, "has_value")
        made.inner |= dict.fromkeys(("value", "has_value", "values"), v.like(v.dims, dtype=made.full.dtype))
        return "values"

    # ---- Its meaning ----

    def reference(self, q, k, v, len_q, len_kv, extras, scale, sink=None, table_k=None, table_v=None,
                  blocks=None, seed=0, offset=0):
        if table_k is not None:
            count = self.max_kv or table_k.shape[2] * k.shape[3]
            k, v = paged(k, table_k, 3, count), paged(v, table_v, 2, count)
        scores, seen, values = self._scores(q, k, len_q, len_kv, extras, scale, blocks)
        sinks = np.where(self._has_query(q, len_q), -np.inf if sink is None else sink, -np.inf)
        top = np.maximum(scores.max(3, keepdims=True, initial=-np.inf), sinks)
        base = np.where(top == -np.inf, 0.0, top)
        raised = np.exp(scores - base)
        total = raised.sum(3, keepdims=True) + np.exp(sinks - base)
        with np.errstate(divide="ignore", invalid="ignore"):
            stats = np.log(total) + base
            weights = raised / (total if self.empty == "nan" else np.where(total == 0, 1.0, total))
        weights = weights * self._factors(scores.shape, values, seed, offset)
        return dict(o=self._sums(weights, seen, np.repeat(v, q.shape[1] // v.shape[1], 1)), stats=stats,
                    score_max=top, score_sum_exp=total)

    def _has_query(self, q, len_q):
        n_q, _ = self._lengths((*q.shape[:3], 0), len_q, None)
        return np.arange(q.shape[2])[:, None] < n_q

    @staticmethod
    def _sums(weights, seen, v):
        """weights @ v, in which a value that is no number reaches those who see it."""
        wild = ~np.isfinite(v).all((0, 1, 3))
        o = weights @ np.where(wild[:, None], 0.0, v)
        for key in np.flatnonzero(wild):
            o += np.where(seen[..., key, None], weights[..., key, None] * v[:, :, key, None], 0.0)
        return o

    def magnitude(self, arrays, scalars, results):
        q, k, v = (np.abs(arrays[n]) for n in "qkv")
        if (table := arrays.get("table_k")) is not None:
            k = paged(k, table, 3, self.max_kv or table.shape[2] * k.shape[3])
        scale = np.abs(scalars.get("scale", 1.0))
        depth = scale * (q @ np.repeat(k, q.shape[1] // k.shape[1], 1))
        spread = depth.max(3, keepdims=True, initial=0)
        for extra in arrays.get("extras") or ():
            spread = spread + np.abs(np.asarray(extra, np.float64)).max(initial=0)
        others = {n: arrays.get(n) for n in self.reads if n not in ("q", "k", "v")}
        size = (Pointwise(mode="abs"), (f"n{len(self.keep) - 1}",))
        op = replace(self, keep=(*self.keep, size)) if self.keep else self
        plain = op.reference(arrays["q"], arrays["k"], v, **others, **{"scale": 1.0, **scalars})["o"]
        plain = np.nan_to_num(plain)
        stats = np.abs(results["stats"])
        finite = lambda x: np.where(np.isinf(x), 0, np.abs(x))
        top, total = results["score_max"], results["score_sum_exp"]
        return dict(o=plain * (1 + 4 * spread), stats=1 + spread + finite(stats),
                    score_max=1 + spread + finite(top), score_sum_exp=total * (1 + 4 * spread))

    def inner_error(self, arrays, scalars, descs):
        """Weights below the least normal number may be 0."""
        least = np.finfo(np.float64 if self.math == "f64" else np.float32).tiny
        return {"o": least * np.nan_to_num(np.abs(arrays["v"])).sum(2, keepdims=True).max(initial=0)}

    def flops(self, q, k, v, table_k=None, **_):
        return 2 * self.pairs(self.space(q, k, table_k)) * (q.dims[3] + v.dims[3])


def paged(container, table, axis: int, count: int):
    """(b, heads, …) of what lies in pages: ``axis`` has the keys of one, of which ``count`` are taken one
    behind the other. A page that is none holds 0."""
    table = table[:, 0, :, 0].astype(int)
    is_page = (table >= 0) & (table < container.shape[0])
    container = np.concatenate([container, np.zeros_like(container, shape=(1, *container.shape[1:]))])
    found = np.moveaxis(container[np.where(is_page, table, -1)], 1, axis)    # in front of the keys of a page
    shape = found.shape[:axis] + (-1,) + found.shape[axis + 2:]
    return np.take(found.reshape(shape), np.arange(count), axis)
