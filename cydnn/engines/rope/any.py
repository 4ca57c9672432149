"""Rotary embedding of any types and strides."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many
from ...ops import Pointwise, Rope
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, memory_us, wrong_device

LANES = 8


class RopeAny(Engine):
    """A thread turns eight pairs of a row, or one, and stores them, through the nodes behind."""
    index = 475
    takes = core(Rope, behind=many(Pointwise))
    knobs = (Knob("channels", (LANES, 1)),)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if p.y.count >= 2 ** 31:
            yield f"y must have fewer than 2^31 elements; got {p.y.count}"
        for uid in p.region.outputs:
            if p.graph.tensors[uid].dtype.bits < 8:
                yield f"what is stored must have whole bytes; got {p.graph.tensors[uid].dtype}"
        yield from fusion.reasons(*self._fuse(p, 1).values())

    def configs(self, p, dev):
        best = LANES if p.cos.dims[-1] % LANES == 0 == p.x.dims[-1] % LANES else 1
        return first_then(Config(channels=best), (Config(channels=n) for n in ((1,) if best > 1 else ())))

    def cost(self, p, dev, config):
        near = all(t.strides[-1] == 1 for t in (p.x, p.lead().tensor))
        return memory_us(p, dev, efficiency=0.75 if config.channels > 1 and near else 0.25)

    @staticmethod
    def _math(p) -> str:
        return "f64" if p.op.math == "f64" else fusion.math_of((), p.descs)

    def _site(self, p, last, lanes) -> Site:
        rows = tuple(range(p.x.rank - 1))
        return Site((*p.x.dims[:-1], last), None, (("row", rows), ("col", (p.x.rank - 1,))),
                    "col" if lanes > 1 else "", lanes)

    def _fuse(self, p, lanes) -> dict:
        """What is spliced at each mark."""
        @fusion.attempt
        def load(p, name, lanes):
            builder = Builder(self._math(p), self._site(p, p.operands[name].dims[-1], lanes), p.graph)
            return builder.finish(builder.read(p.uids[name]))

        @fusion.attempt
        def store(p, lanes):
            return fusion.behind(p, self._site(p, p.y.dims[-1], lanes), p.lead(), mark_type=self._math(p))
        return dict(load_x=load(p, "x", lanes), load_cos=load(p, "cos", lanes),
                    load_sin=load(p, "sin", lanes),
                    store=store(p, lanes))

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        lanes, pairs, d = config.channels, p.cos.dims[-1], p.x.dims[-1]
        turned, rest = pairs // lanes, (d - 2 * pairs) // lanes
        args = dict(items=prod(p.x.dims[:-1]) * (turned + rest), per_row=turned + rest, turned=turned,
                    pairs=pairs,
                    sign=-1.0 if p.op.inverse else 1.0)
        return [Launch(f"rope_any_{p.op.pairing}_{self._math(p)}_{lanes}", args, {}, self._fuse(p, lanes))]
