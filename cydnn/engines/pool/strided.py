"""Pooling on any strides: forward and gradient."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd, PoolingFwd
from .view import PoolingEngine, full, lanes, state, strides_of, three, too_many


class PoolingFwdStrided(PoolingEngine):
    """Any strides, one output element a thread."""
    index, takes, kernel = 234, core(PoolingFwd), "pooling_fwd_any"
    share = 0.15

    def limits(self, p, dev):
        yield from too_many("elements of y", p.y.count)

    def variant(self, p):
        return (state(p.op),)

    def args(self, p, dev):
        geometry = three(p, p.x.spatial, p.y.spatial)
        geometry.pop("outs")
        return dict(items=p.y.count, full=full(p.op, p.x.rank), **lanes(p.y), **geometry,
                    x_strides=strides_of(p.x, channel=True), y_strides=strides_of(p.y, channel=True))


class PoolingBwdStrided(PoolingEngine):
    """Any strides, one element of dx a thread; maxima walk every window over the cell."""
    index, takes, kernel = 240, core(PoolingBwd), "pooling_bwd_any"
    moves = ("x", "dy", "dx")

    def limits(self, p, dev):
        yield from too_many("elements of dx", p.dx.count)

    def share_of(self, p):
        return 0.02 if p.op.mode == "max" else 0.15

    def variant(self, p):
        return (state(p.op),)

    def args(self, p, dev):
        strides = {f"{name}_strides": strides_of(p.operands[name], channel=True) for name in self.moves}
        return dict(items=p.dx.count, full=full(p.op, p.x.rank), **lanes(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), **strides)
