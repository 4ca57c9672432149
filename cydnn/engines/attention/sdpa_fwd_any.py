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

MOST, DEEPEST = 1 << 30, 256                     # queries of the heads that share keys; elements of a row
KEYS, SHARE, STEP = 32, 0.2, 1500                # of a step; of the FMA peak, clocks of a step: estimates
COORDINATES = dict(q="batch head row depth", k="batch head depth key", v="batch head key col",
                   o="batch head row col", stats="batch head row", scores="batch head row col")


def site(mark: str, dims, lead) -> Site:
    """A mark knows the coordinate of each dim."""
    return Site(dims, lead, tuple([(name, (axis,)) for axis, name in enumerate(COORDINATES[mark].split())]))


class SdpaFwdAny(Engine):
    """Spliced code loads q, k and v, through the nodes in front, changes scores, and stores o, through the
    nodes behind. What the scores of a row share is made once."""
    index = 420
    takes = core(Sdpa, before=many(Pointwise, at="q k v"), behind=many(Pointwise))
    understands = numbers()
    is_general = True

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > DEEPEST:
                yield f"{name} must be at most {DEEPEST}; got {size}"
        for name, size in (("queries of heads that share keys", self._rows(p)), ("s_kv", p.v.dims[2])):
            if size > MOST:
                yield f"{name} must be at most {MOST}; got {size}"
        yield from fusion.reasons(*self._fuse(p).values())

    # ---- What is spliced ----

    def _fuse(self, p) -> dict:
        """{mark: what ``attempt`` found for it}."""
        scores = self._scores(p)
        row, score = scores if isinstance(scores, tuple) else (scores, None)
        return dict(load_q=self._load(p, "q"), load_k=self._load(p, "k"), load_v=self._load(p, "v"),
                    row=row, score=score, store=self._store(p), stats=self._stats(p))

    @fusion.attempt
    def _load(self, p, name):
        mark = site(name, p.operands[name].dims, lead_input(p, name))
        return fusion.before(p, name, mark, fusion.math_before(p, name, p.op.math))

    @fusion.attempt
    def _scores(self, p) -> tuple:
        """(what is made once for a row, what is done to each score), None where that is nothing."""
        math = "f64" if p.op.math == "f64" else fusion.math_of((), p.extras or ())
        rows = Rows(math, site("scores", p.op.space(p.q, p.k), None), 3, p.graph)
        scale = p.scalar("scale")
        scale = rows.tensor(scale.uid) if isinstance(scale, Pointer) else rows.number(scale)
        scaled = rows.step(Pointwise(mode="mul"), [rows.element(), scale])
        values = {name: rows.index(axis) for axis, name in enumerate(COORDINATES["scores"].split())}
        values |= {f"e{i}": rows.tensor(uid) for i, uid in enumerate(p.uids.get("extras", ()))}
        last = values["s"] = scaled
        for i, (op, reads) in enumerate(p.op.score):
            last = rows.step(op, [values[r] if isinstance(r, str) else rows.number(r) for r in reads])
            values[f"n{i}"] = last
        return rows.finish(last, [t.dtype for t in (p.o, p.stats) if t is not None])

    @fusion.attempt
    def _store(self, p):
        lead = p.lead()
        return fusion.behind(p, site("o", lead.tensor.dims, lead.tensor), lead, mark_type=p.op.math)

    @fusion.attempt
    def _stats(self, p):
        uid = p.uids.get("stats")
        if uid not in p.region.outputs:
            return None
        builder = Builder(p.op.math, site("stats", p.stats.dims, p.stats), p.graph)
        builder.values[uid] = "v"
        builder.store(uid)
        return builder.finish("")

    # ---- Its launch ----

    @staticmethod
    def _group(p) -> int:
        """How many heads, side by side, read the same k and v."""
        return gcd(*(p.q.dims[1] // t.dims[1] for t in (p.k, p.v))) or 1

    def _rows(self, p) -> int:
        return p.q.dims[2] * self._group(p)

    def _tiles(self, p) -> int:
        """Blocks of one group of heads."""
        return ceil_div(self._rows(p), 64 // BY_NAME[p.op.math].bytes)

    def cost(self, p, dev, config):
        """Of the arithmetic of the busiest SM, or the latency of a block's steps."""
        keys, rate = seen(p), (dev.fma_f64 if p.op.math == "f64" else dev.fma_f32) * SHARE
        blocks = self._tiles(p) * p.q.dims[0] * p.q.dims[1] // self._group(p)
        depth, chunk = p.q.dims[3] + p.v.dims[3], 256 // BY_NAME[p.op.math].bytes
        busy = ceil_div(blocks, dev.sms) * 64 // BY_NAME[p.op.math].bytes * keys * depth / rate
        waiting = ceil_div(blocks, 4 * dev.sms) * (keys / KEYS + 1) * (depth / chunk + 1) * STEP
        return moved_us(p.region.traffic_bytes, dev) + max(busy, waiting) / dev.clock_mhz

    def plan(self, p, dev, config):
        b, heads, s_q, d_qk = p.q.dims
        if not any(p.graph.tensors[uid].count for uid in p.region.outputs):
            return []
        group, lead = self._group(p), p.lead()
        steps = {name: (lead_input(p, name) or p.operands[name]).strides for name in "qkv"}
        batch, head, depth, key = steps["k"]
        length = lambda d: d.strides[0] if d is not None else 0
        args = dict(len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"), len_q_step=length(p.len_q),
                    len_kv_step=length(p.len_kv), heads=heads, group=group, per_k=heads // p.k.dims[1],
                    per_v=heads // p.v.dims[1], s_q=s_q, s_kv=p.v.dims[2], d_qk=d_qk, d_v=p.v.dims[3],
                    left=min(p.op.left - 1, MOST), right=min(p.op.right, MOST - 1),
                    from_end=p.op.diagonal == "bottom_right", empty=0.0 if p.op.empty == "zero" else nan,
                    q_steps=steps["q"], k_steps=(batch, head, key, depth), v_steps=steps["v"],
                    o_steps=lead.tensor.strides,
                    stats_steps=p.stats.strides[:3] if p.stats is not None else (0, 0, 0))
        fuse = {mark: fused for mark, fused in self._fuse(p).items() if fused is not None}
        return [Launch(f"sdpa_fwd_any_{p.op.math}", args, dict(tiles=self._tiles(p), batches=b), fuse)]


def seen(p) -> float:
    """How many keys a query sees on average, where lengths are the whole."""
    s_q, s_kv = p.q.dims[2], p.v.dims[2]
    shift = s_kv - s_q if p.op.diagonal == "bottom_right" else 0
    some = [(2 * i + 1) * s_q // 64 + shift for i in range(32)]
    first = [max(0, at - p.op.left + 1) if p.op.left else 0 for at in some]
    end = [min(s_kv, at + p.op.right + 1) if p.op.right >= 0 else s_kv for at in some]
    return sum(max(0, e - f) for f, e in zip(first, end)) / len(some)
