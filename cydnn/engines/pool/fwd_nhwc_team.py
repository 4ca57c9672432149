"""Forward pooling with channels innermost: a block shares large windows."""
from __future__ import annotations

from math import prod

from ...graph import core
from ...ops import PoolingFwd
from .view import (PoolingEngine, full, items_of, no_channel_vectors, state, strides_of, three, too_many,
                   vectors)

TEAM = 8                                         # most warps that share a window
FEW_OUTPUTS = 1 << 18                            # vectors; with more, one thread for each fills the device


class PoolingFwdNhwcTeam(PoolingEngine):
    """Large windows: the warps of a block share out their rows."""
    index, takes, kernel = 241, core(PoolingFwd), "pooling_fwd_nhwc_team"

    def limits(self, p, dev):
        yield from no_channel_vectors(p, "x", "y")
        yield from too_many("output vectors", p.y.count)
        window = p.op.geometry(p.x.rank)[0]
        if prod(window) < 16 or len(window) < 2:
            yield f"window must have rows and at least 16 cells; got {window}"

    def share_of(self, p):
        return 0.8 if items_of(p.y) < FEW_OUTPUTS else 0.7

    def variant(self, p):
        return (state(p.op),)

    def args(self, p, dev):
        rows = prod(p.op.geometry(p.x.rank)[0][:-1])
        return dict(items=items_of(p.y), full=full(p.op, p.x.rank), vectors=vectors(p.y),
                    **three(p, p.x.spatial, p.y.spatial), x_strides=strides_of(p.x, channel=False),
                    y_strides=strides_of(p.y, channel=False), team=min(TEAM, rows))
