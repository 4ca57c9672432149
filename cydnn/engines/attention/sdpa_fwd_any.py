"""Attention of any types, strides and scores, with pointwise operations in front of it and behind it."""
from __future__ import annotations

from math import gcd, nan

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Builder, Rows, Site
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, Sdpa
from ...steps import Launch, Pointer
from ..engine import Engine, moved_us, numbers, wrong_device
from ..sums import lead_input
from .dropped import drawn, factor_of_weight

MOST, DEEPEST = 1 << 30, 256                     # queries of the heads that share keys; elements of a row
KEYS, SHARE, STEP = 32, 0.2, 1500                # of a step; of the FMA peak, clocks of a step: estimates
COORDINATES = dict(q="batch head row depth", k="batch head depth key", v="batch head key col",
                   o="batch head row col", stats="batch head row", scores="batch head row col",
                   score_max="batch head row", score_sum_exp="batch head row", sink="batch head")
KEPT = ("stats", "score_max", "score_sum_exp")
RAGGED = ("q", "k", "v", "o", "stats")           # operands whose batches may begin anywhere


def site(mark: str, dims, lead) -> Site:
    """A mark knows the coordinate of each dim."""
    return Site(dims, lead, tuple([(name, (axis,)) for axis, name in enumerate(COORDINATES[mark].split())]))


class SdpaFwdAny(Engine):
    """Spliced code loads q, k and v, through the nodes in front, changes scores, and stores o, through the
    nodes behind. What the scores of a row share is made once."""
    index = 420
    takes = core(Sdpa, before=many(Pointwise, at="q k v"), behind=many(Pointwise))
    understands = numbers() | {"ragged"} | {*Sdpa.special.values()}
    is_general = True

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > DEEPEST:
                yield f"{name} must be at most {DEEPEST}; got {size}"
        for name, size in (("queries of heads that share keys", rows(p)), ("s_kv", keys(p))):
            if size > MOST:
                yield f"{name} must be at most {MOST}; got {size}"
        yield from wrongly_ragged(p, RAGGED)
        yield from fusion.reasons(*self._fuse(p).values())

    # ---- What is spliced ----

    def _fuse(self, p) -> dict:
        """{mark: what ``attempt`` found for it}."""
        scores = changes(p)
        row, score, weight = scores if isinstance(scores, tuple) else (scores, None, None)
        return dict(load_q=self._load(p, "q"), load_k=self._load(p, "k"), load_v=self._load(p, "v"),
                    row=row, score=score, weight=weight, store=self._store(p), **self._kept(p),
                    **self._sink(p))

    @fusion.attempt
    def _load(self, p, name):
        mark = site(name, p.operands[name].dims, lead_input(p, name))
        return fusion.before(p, name, mark, fusion.math_before(p, name, p.op.math))

    @fusion.attempt
    def _store(self, p):
        lead = p.lead()
        return fusion.behind(p, site("o", lead.tensor.dims, lead.tensor), lead, mark_type=p.op.math)

    def _kept(self, p) -> dict:
        return {name: self._stored(p, name) for name in KEPT if p.uids.get(name) in p.region.outputs}

    @fusion.attempt
    def _stored(self, p, name):
        tensor, uid = p.operands[name], p.uids[name]
        builder = Builder(p.op.math, site(name, tensor.dims, tensor), p.graph)
        builder.values[uid] = "v"
        builder.store(uid)
        return builder.finish("")

    def _sink(self, p) -> dict:
        return {} if p.sink is None else {"load_sink": load_sink(p)}

    # ---- Its launch ----

    def _tiles(self, p) -> int:
        """Blocks of one group of heads."""
        return ceil_div(rows(p), 64 // BY_NAME[p.op.math].bytes)

    def cost(self, p, dev, config):
        """Of the arithmetic of the busiest SM, or the latency of a block's steps."""
        keys, rate = seen(p), (dev.fma_f64 if p.op.math == "f64" else dev.fma_f32) * SHARE
        blocks = self._tiles(p) * p.q.dims[0] * p.q.dims[1] // sharing(p)
        depth, chunk = p.q.dims[3] + p.v.dims[3], 256 // BY_NAME[p.op.math].bytes
        busy = ceil_div(blocks, dev.sms) * 64 // BY_NAME[p.op.math].bytes * keys * depth / rate
        waiting = ceil_div(blocks, 4 * dev.sms) * (keys / KEYS + 1) * (depth / chunk + 1) * STEP
        return moved_us(p.region.traffic_bytes, dev) + max(busy, waiting) / dev.clock_mhz

    def plan(self, p, dev, config):
        b, heads, s_q, d_qk = p.q.dims
        if not any(p.graph.tensors[uid].count for uid in p.region.outputs):
            return []
        lead = p.lead()
        steps = {name: (lead_input(p, name) or p.operands[name]).strides for name in "qkv"}
        batch, head, depth, key = steps["k"]
        length = lambda d: d.strides[0] if d is not None else 0
        args = dict(len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"), len_q_step=length(p.len_q),
                    len_kv_step=length(p.len_kv), heads=heads, group=sharing(p), per_k=heads // p.k.dims[1],
                    per_v=heads // p.v.dims[1], s_q=s_q, s_kv=keys(p), d_qk=d_qk, d_v=p.v.dims[3],
                    left=min(p.op.left - 1, MOST), right=min(p.op.right, MOST - 1),
                    from_end=p.op.diagonal == "bottom_right", empty=0.0 if p.op.empty == "zero" else nan,
                    has_sink=p.sink is not None, q_steps=steps["q"], k_steps=(batch, head, key, depth),
                    v_steps=steps["v"], o_steps=lead.tensor.strides, **begins(p, RAGGED),
                    **{f"{word}_steps": p.operands[name].strides[:3] if p.operands[name] else (0, 0, 0)
                       for word, name in (("stats", "stats"), ("max", KEPT[1]), ("sum", KEPT[2]))},
                    **self._pages(p, "k", 3), **self._pages(p, "v", 2), blocks=p.ptr("blocks"),
                    blocks_steps=along(p.blocks), **drawn(p, before := []))
        fuse = {mark: fused for mark, fused in self._fuse(p).items() if fused is not None}
        extra = dict(tiles=self._tiles(p), batches=b)
        return [*before, Launch(f"sdpa_fwd_any_{p.op.math}", args, extra, fuse)]

    @staticmethod
    def _pages(p, name, axis) -> dict:
        """The table of an operand, and how large and how many its pages are."""
        table, t = p.operands[f"table_{name}"], p.operands[name]
        steps = (0, 0) if table is None else (table.strides[0], table.strides[2])
        return {f"{name}_table": p.ptr(f"table_{name}"), f"{name}_table_steps": steps,
                f"{name}_pages": (max(t.dims[axis], 1), t.dims[0])}


def along(d) -> tuple:
    """Steps of a tensor of rank 4 that is broadcast along its dims of 1."""
    return tuple([s if n > 1 else 0 for n, s in zip(d.dims, d.strides)]) if d is not None else (0,) * 4


def sharing(p) -> int:
    """How many heads, side by side, read the same k and v."""
    return gcd(*(p.q.dims[1] // t.dims[1] for t in (p.k, p.v))) or 1


def keys(p) -> int:
    return p.op.keys(p.k, p.table_k)


def rows(p) -> int:
    """Queries of heads that share keys."""
    return p.q.dims[2] * sharing(p)


def begins(p, names) -> dict:
    """Where the batches of ragged operands begin: {parameter: address}, and which offsets have 64 bits."""
    found, wide = {f"{name}_at": None for name in names}, 0
    for i, name in enumerate(names):
        t = p.operands[name]
        if t is not None and t.ragged is not None:
            found[f"{name}_at"] = Pointer(t.ragged)
            wide |= (p.graph.tensors[t.ragged].dtype.name == "i64") << i
    return dict(found, wide=wide)


def wrongly_ragged(p, names):
    """The reasons not to take what is ragged beside the operands ``names``, or has neighbours."""
    for name, value in p.operands.items():
        for t in value if isinstance(value, tuple) else (value,):
            if t is not None and t.ragged is not None and name not in names:
                yield f"{name} must not be ragged; got offsets {p.graph.tensors[t.ragged].label}"
    ragged = [t.label for u in (*p.region.inputs, *p.region.outputs)
              if (t := p.graph.tensors[u]).ragged is not None]
    if ragged and (p.before or p.behind):
        yield f"ragged tensors must have no operations beside them; got {ragged[0]}"


@fusion.attempt
def changes(p) -> tuple:
    """(what is made once for a row, what is done to each score, and to the factor of its weight), None
    where that is nothing."""
    math = "f64" if p.op.math == "f64" else fusion.math_of((), p.extras or ())
    rows = Rows(math, site("scores", p.op.space(p.q, p.k, p.table_k), None), 3, p.graph)
    scale = p.scalar("scale")
    scale = rows.tensor(scale.uid) if isinstance(scale, Pointer) else rows.number(scale)
    scaled = rows.step(Pointwise(mode="mul"), [rows.element(), scale])
    values = {name: rows.index(axis) for axis, name in enumerate(COORDINATES["scores"].split())}
    values |= {f"e{i}": rows.tensor(uid) for i, uid in enumerate(p.uids.get("extras", ()))}
    last = values["s"] = scaled
    for i, (op, reads) in enumerate(p.op.score):
        last = rows.step(op, [values[r] if isinstance(r, str) else rows.number(r) for r in reads])
        values[f"n{i}"] = last
    written = [t.dtype for t in (p.o, p.stats) if t is not None]
    weight = factor_of_weight(p, rows, values, written)
    return *rows.finish(last, written), weight


@fusion.attempt
def load_sink(p):
    return fusion.before(p, "sink", site("sink", p.sink.dims, None), fusion.math_before(p, "sink", p.op.math))


def seen(p) -> float:
    """How many keys a query sees on average, where lengths are the whole."""
    s_q, s_kv = p.q.dims[2], p.op.space(p.q, p.k, p.operands.get("table_k"))[3]
    shift = s_kv - s_q if p.op.diagonal == "bottom_right" else 0
    some = [(2 * i + 1) * s_q // 64 + shift for i in range(32)]
    first = [max(0, at - p.op.left + 1) if p.op.left else 0 for at in some]
    end = [min(s_kv, at + p.op.right + 1) if p.op.right >= 0 else s_kv for at in some]
    return sum(max(0, e - f) for f, e in zip(first, end)) / len(some)
