"""Gradient of average pooling with channels innermost, any window."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd
from .view import (PoolingEngine, at_least_1, full, inner_first, items_of, no_channel_vectors, strides_of,
                   three, too_many, vectors)


class PoolingBwdAvgNhwc(PoolingEngine):
    """Averages: a cell gathers the windows over it."""
    index, takes, kernel = 235, core(PoolingBwd), "pooling_bwd_avg_nhwc"
    is_max, moves = False, ("dy", "dx")

    def limits(self, p, dev):
        yield from no_channel_vectors(p, "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)

    def args(self, p, dev):
        return dict(items=items_of(p.dx), full=full(p.op, p.x.rank), vectors=vectors(p.dx),
                    cells=at_least_1(inner_first(p.dx.spatial, 1)), **three(p, p.dx.spatial, p.dy.spatial),
                    dy_strides=strides_of(p.dy, channel=False), dx_strides=strides_of(p.dx, channel=False))
