"""Forward pooling with channels innermost, any window."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingFwd
from .view import (PoolingEngine, full, items_of, no_channel_vectors, state, strides_of, three, too_many,
                   vectors)


class PoolingFwdNhwc(PoolingEngine):
    """Any window: the cells of a window as one list, eight loads in flight."""
    index, takes, kernel = 231, core(PoolingFwd), "pooling_fwd_nhwc"
    share = 0.75

    def limits(self, p, dev):
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)

    def variant(self, p):
        return (state(p.op),)

    def args(self, p, dev):
        return dict(items=items_of(p.y), full=full(p.op, p.x.rank), vectors=vectors(p.y),
                    **three(p, p.x.spatial, p.y.spatial), x_strides=strides_of(p.x, channel=False),
                    y_strides=strides_of(p.y, channel=False))
