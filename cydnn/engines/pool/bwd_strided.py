"""Gradient of pooling for any strides, lanes along w or along channels, whichever lies closer."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd
from .view import PoolingEngine, full, lanes, state, strides_of, three, too_many


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
