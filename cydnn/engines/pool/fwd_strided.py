"""Forward pooling for any strides, lanes along w or along channels, whichever lies closer."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingFwd
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
