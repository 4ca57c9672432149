"""The gradients of attention of any types, strides and scores, each sum in a fixed order."""
from __future__ import annotations

from math import gcd

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Builder, Rows
from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, SdpaBwd
from ...ops.attention.adjoint import adjoint
from ...steps import Launch, Pointer
from ..engine import Engine, moved_us, numbers, wrong_device
from ..sums import lead_input
from .dropped import drawn, factor_of_weight
from .sdpa_fwd_any import COORDINATES, DEEPEST, MOST, begins, load_sink, seen, site, wrongly_ragged

OWN = dict(do="o", dq="q", dk="k", dv="v", dbias="scores", dsink="sink",
           peak="stats")                         # whose marks are like another's
OPERANDS = dict(dq="q k v o do dq", dkv="q k v do dk dv", dbias="q k v do dbias")     # of each kernel
BOTH = 384                                       # elements of a row of k and of v with both gradients
SHARE = 0.15                                     # of the FMA peak: an estimate


class SdpaBwdAny(Engine):
    """Scores are made anew by each launch: one for dq, which leaves the sums of do * o behind, one for dk and
    dv, or two where other heads share them, and one for dbias. Spliced code loads, stores, and changes scores
    and their gradients. Nothing of the size of the scores is kept, nothing is added by atomics."""
    index = 430
    takes = core(SdpaBwd)
    understands = numbers() | {"ragged"} | {*SdpaBwd.special.values()}
    is_general = True

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        for name, size in (("d_qk", p.q.dims[3]), ("d_v", p.v.dims[3])):
            if size > DEEPEST:
                yield f"{name} must be at most {DEEPEST}; got {size}"
        for name, size in (("queries of heads that share keys", p.q.dims[2] * self._group(p)),
                           ("s_kv", p.v.dims[2])):
            if size > MOST:
                yield f"{name} must be at most {MOST}; got {size}"
        yield from wrongly_ragged(p, "q k v o do stats dq dk dv".split())
        yield from fusion.reasons(*spliced(p).values())

    # ---- Its launches ----

    @staticmethod
    def _group(p) -> int:
        """How many heads, side by side, read the same k and v."""
        return gcd(*(p.q.dims[1] // t.dims[1] for t in (p.k, p.v))) or 1

    def cost(self, p, dev, config):
        rate = (dev.fma_f64 if p.op.math == "f64" else dev.fma_f32) * SHARE
        pairs, depth = p.q.dims[0] * p.q.dims[1] * p.q.dims[2] * seen(p), p.q.dims[3] + p.v.dims[3]
        launches = 2 + self._is_apart(p) + (p.dbias is not None)
        busy = pairs * depth * (launches + 1) / (rate * dev.sms * dev.clock_mhz)
        return launches * moved_us(p.region.traffic_bytes, dev) + busy

    @staticmethod
    def _is_apart(p) -> bool:
        """dk and dv come of launches of their own."""
        return p.k.dims[1] != p.v.dims[1] or p.q.dims[3] + p.v.dims[3] > BOTH

    def plan(self, p, dev, config):
        b, heads, s_q, d_qk = p.q.dims
        s_kv, per_k, per_v = p.v.dims[2], heads // p.k.dims[1] or 1, heads // p.v.dims[1] or 1
        lines, kind = 64 // BY_NAME[p.op.math].bytes, p.op.math
        dots = p.scratch(b * heads * s_q * BY_NAME[kind].bytes)
        args = arguments(p, dots, steps := [])
        group = self._group(p)
        if b * heads * s_q:
            extra = dict(tiles=ceil_div(s_q * group, lines), batches=b)
            peaks = p.peak.strides[:3] if p.peak is not None else (0, 0, 0)
            steps.append(launch(p, "dq", dict(args, group=group, peak_steps=peaks), extra))
        ways = [(per_k, 1, 0), (per_v, 0, 1)] if self._is_apart(p) else [(per_k, 1, 1)]
        for span, with_k, with_v in ways if b * heads * s_kv else ():
            more = dict(span=span, with_k=with_k, with_v=with_v)
            steps.append(launch(p, "dkv", args | more, dict(tiles=ceil_div(s_kv, lines), batches=b)))
        return [*steps, *sum_biases(p, args), *sum_sinks(p, dots)]


# ---- What is spliced ----

def spliced(p, of="s") -> dict:
    """{mark: what ``attempt`` found for it}; ``of``: whose gradient dscore makes."""
    loads = {f"load_{name}": loaded(p, name) for name in ("q", "k", "v", "o", "do", "stats")}
    written = ("dq", "dk", "dv", "dbias", "peak")
    stores = {f"store_{name}": stored(p, name) for name in written if p.operands[name] is not None}
    stores |= of_sinks(p)
    found = gradients(p, of)
    names = ("row", "score", "dscore", "weight")
    return loads | stores | (dict(zip(names, found)) if isinstance(found, tuple) else {"row": found})


@fusion.attempt
def gradients(p, of) -> tuple:
    """(what is made once for a row, the score, the gradient of what is called ``of``, the factor of the
    weight)."""
    math = "f64" if p.op.math == "f64" else fusion.math_of((), p.extras or ())
    rows = Rows(math, site("scores", p.op.space(p.q, p.k), None), 3, p.graph)
    scale = p.scalar("scale")
    scale = rows.tensor(scale.uid) if isinstance(scale, Pointer) else rows.number(scale)
    scaled = rows.step(Pointwise(mode="mul"), [rows.element(), scale])
    values = {name: rows.index(axis) for axis, name in enumerate(COORDINATES["scores"].split())}
    values |= {f"e{i}": rows.tensor(uid) for i, uid in enumerate(p.uids.get("extras", ()))}
    last = _steps(rows, p.op.score, values | {"s": scaled}, scaled)
    written = [t.dtype for t in (p.dq, p.dk, p.dv)]
    weight = factor_of_weight(p, rows, values, written)
    behind, carried = rows.behind(scaled)
    values |= {"s": carried, "d": behind.element()}
    made = p.op.back if of == "s" else adjoint(p.op.score, of)
    change = _steps(behind, made, values, values["d"])
    if of == "s":
        change = behind.step(Pointwise(mode="mul"), [change, scale])
    gradient = behind.finish(change, written)[1]
    return *rows.finish(last, written), gradient, weight


def _steps(rows, score, values, last):
    values = dict(values)
    for i, (op, reads) in enumerate(score):
        last = rows.step(op, [values[r] if isinstance(r, str) else rows.number(r) for r in reads])
        values[f"n{i}"] = last
    return last


@fusion.attempt
def loaded(p, name):
    mark = site(OWN.get(name, name), p.operands[name].dims, lead_input(p, name))
    return fusion.before(p, name, mark, fusion.math_before(p, name, p.op.math))


@fusion.attempt
def stored(p, name):
    tensor = p.operands[name]
    lead = None if name == "dsink" else tensor           # whose mark has no offset
    builder = Builder(p.op.math, site(OWN[name], tensor.dims, lead), p.graph)
    builder.values[p.uids[name]] = "v"
    builder.store(p.uids[name])
    return builder.finish("")


def of_sinks(p) -> dict:
    """{mark: what ``attempt`` found for it} where gradients of sinks are asked for."""
    return {} if p.dsink is None else dict(load_sink=load_sink(p), store_dsink=stored(p, "dsink"))


def sum_sinks(p, dots):
    """The launch that makes the gradients of sinks; ``dots``: of each query the sum of do * o, in the type of
    arithmetic."""
    heads, s_q = p.q.dims[1:3]
    if p.dsink is None or not s_q * heads:
        return
    fuse = of_sinks(p) | dict(load_stats=loaded(p, "stats"))
    fuse = {mark: one for mark, one in fuse.items() if one is not None}
    args = dict(len_q=p.ptr("len_q"), len_q_step=p.len_q.strides[0] if p.len_q is not None else 0, dots=dots,
                batches=p.q.dims[0], heads=heads, s_q=s_q, stats_steps=p.stats.strides[:3],
                **begins(p, ["stats"]))
    yield Launch(f"sdpa_bwd_any_dsink_{p.op.math}", args, {}, fuse)


# ---- Launches, of other engines of these gradients too ----

def launch(p, name, args, extra, of="s") -> Launch:
    """One of the kernels, with the strides of its operands in the order of their marks' coordinates."""
    operands = OPERANDS[name].split()
    made = {"dk": args.get("with_k"), "dv": args.get("with_v")}
    marks = {"load_stats", "row", "score", "dscore", "weight", *(f"load_{o}" for o in operands),
             *(f"store_{o}" for o in operands if made.get(o, 1))}
    marks |= {"store_peak"} if name == "dq" else set()
    for operand in operands:
        tensor = p.operands[operand]
        a, b, c, d = (lead_input(p, operand) or tensor if operand in SdpaBwd.reads else tensor).strides
        args[f"{operand}_steps"] = (a, b, d, c) if operand in ("k", "dk") else (a, b, c, d)
    args |= begins(p, [*(o for o in operands if o != "dbias"), "stats"])
    fuse = {mark: one for mark, one in spliced(p, of).items() if mark in marks and one is not None}
    return Launch(f"sdpa_bwd_any_{name}_{p.op.math}", args, extra, fuse)


def arguments(p, dots, steps) -> dict:
    """What the kernels have in common; ``steps`` get what brings numbers into their types.
    ``dots``: of each query the sum of do * o, in the type of arithmetic."""
    (_, heads, s_q, d_qk), length = p.q.dims, lambda d: d.strides[0] if d is not None else 0
    return dict(len_q=p.ptr("len_q"), len_kv=p.ptr("len_kv"), len_q_step=length(p.len_q),
                len_kv_step=length(p.len_kv), dots=dots, heads=heads, per_k=heads // p.k.dims[1] or 1,
                per_v=heads // p.v.dims[1] or 1, s_q=s_q, s_kv=p.v.dims[2], d_qk=d_qk, d_v=p.v.dims[3],
                left=min(p.op.left - 1, MOST), right=min(p.op.right, MOST - 1),
                from_end=p.op.diagonal == "bottom_right", stats_steps=p.stats.strides[:3], **drawn(p, steps))


def sum_biases(p, args):
    """The launch that makes the gradient of what scores read; ``args``: of ``arguments``."""
    b, heads, s_q, _ = p.q.dims
    if p.dbias is None or not b * heads * s_q * p.v.dims[2]:
        return
    args = args | dict(zip(("out_batches", "out_heads", "out_rows", "out_cols"), p.dbias.dims), batches=b)
    lines, rows = 64 // BY_NAME[p.op.math].bytes, p.dbias.dims[2]
    yield launch(p, "dbias", args, dict(tiles=1 if rows == 1 else ceil_div(rows, lines)), f"e{p.op.dbias_of}")
