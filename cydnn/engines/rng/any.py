"""Random numbers of any type and strides, with pointwise operations behind them."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...fusion import Site
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, Rng
from ...steps import Launch
from .. import cast
from ..dropout.dropout import thresholds
from ..engine import Engine, moved_us, numbers, wrong_device

OCTET = 8
# of an H200: of the stores' bandwidth 0.67, 0.55, 0.47 in f16, and 0.45 of normal numbers in f32
OCTETS_PER_US = dict(bernoulli=180e3, uniform=145e3, normal=60e3, normal_fast=122e3)


class RngAny(Engine):
    """A thread makes eight neighbours of a row and stores them, through the nodes behind. Dropout of a tensor
    is one launch."""
    index = 470
    takes = core(Rng, behind=many(Pointwise))
    understands = numbers("i64", "i32")

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        if self._items(p) >= 2 ** 31:
            yield f"y must have fewer than 2^31 octets; got {self._items(p)}"
        for uid in p.region.outputs:
            tensor = p.graph.tensors[uid]
            if tensor.dtype.bits < 8:
                yield f"what is stored must have whole bytes; got {tensor.dtype}"
        yield from fusion.reasons(self._store(p))

    @staticmethod
    def _items(p) -> int:
        return prod(p.y.dims[:-1]) * ceil_div(p.y.dims[-1], OCTET)

    @fusion.attempt
    def _store(self, p):
        rows, last = tuple(range(p.y.rank - 1)), (p.y.rank - 1,)
        keys = (("row", rows), ("col", last)) if rows else (("col", last),)
        return fusion.behind(p, Site(p.y.dims, None, keys, "col", OCTET), p.lead(), mark_type=p.op.math)

    def _kind(self, p) -> str:
        """Of the kernels: functions are approximated where at most 16 bits are stored."""
        is_fast = p.op.distribution == "normal" and self._store(p).program.fast
        return p.op.distribution + "_fast" * is_fast

    def cost(self, p, dev, config):
        work = self._items(p) / OCTETS_PER_US[self._kind(p)] * 132 / max(dev.sms, 1)
        return max(moved_us(p.region.traffic_bytes, dev, 0.8), dev.launch_us + work)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        op, steps = p.op, []
        base, scale = (op.mean, op.stdev) if op.distribution == "normal" else (op.low, op.high - op.low)
        args = dict(items=self._items(p), octets=ceil_div(p.y.dims[-1], OCTET), cols=p.y.dims[-1],
                    seed=cast.number_as(p, "seed", "i64", steps), base=base, scale=scale,
                    offset=cast.number_as(p, "offset", "i64", steps), **thresholds(1 - op.probability))
        kernel = f"rng_any_{self._kind(p)}_{op.math}"
        return [*steps, Launch(kernel, args, {}, {"store": self._store(p)})]
