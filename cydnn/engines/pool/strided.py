"""Pooling on any strides: forward and gradient."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd, PoolingFwd
from .view import PoolingEngine, full, lanes, state, strides_of, three, too_many


class PoolingFwdStrided(PoolingEngine):
    """Any strides, one output element a thread."""
    index, takes, kernel = 234, core(PoolingFwd), "pooling_fwd_any"

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from too_many("elements of y", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.15)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        geometry = three(p, p.x.spatial, p.y.spatial)
        geometry.pop("outs")
        args = dict(items=p.y.count, full=full(p.op, p.x.rank), **lanes(p.y), **geometry,
                    x_strides=strides_of(p.x, channel=True), y_strides=strides_of(p.y, channel=True))
        return self.launches(p, args, state(p.op))


class PoolingBwdStrided(PoolingEngine):
    """Any strides, one element of dx a thread; maxima walk every window over the cell."""
    index, takes, kernel = 240, core(PoolingBwd), "pooling_bwd_any"
    moves = ("x", "dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from too_many("elements of dx", p.dx.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.02 if p.op.mode == "max" else 0.15)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        strides = {f"{name}_strides": strides_of(p.operands[name], channel=True) for name in self.moves}
        args = dict(items=p.dx.count, full=full(p.op, p.x.rank), **lanes(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), **strides)
        return self.launches(p, args, state(p.op))
