"""Gradient of average pooling with channels innermost, windows apart."""
from __future__ import annotations

from ...graph import core
from ...ops import PoolingBwd
from .view import PoolingEngine, full, items_of, no_channel_vectors, strides_of, three, too_many, vectors


class PoolingBwdAvgNhwcApart(PoolingEngine):
    """Averages whose windows do not overlap: a thread spreads one dy."""
    index, takes, kernel = 242, core(PoolingBwd), "pooling_bwd_avg_nhwc_apart"
    is_max, moves, share = False, ("dy", "dx"), 0.85

    def limits(self, p, dev):
        yield from no_channel_vectors(p, "dy", "dx")
        yield from too_many("dx vectors", p.dx.count)
        window, _, stride = p.op.geometry(p.x.rank)
        if any(k > s and out > 1 for k, s, out in zip(window, stride, p.dy.spatial)):
            yield f"windows must not overlap; got window {window}, stride {stride}"

    def args(self, p, dev):
        return dict(items=items_of(p.dy), full=full(p.op, p.x.rank), vectors=vectors(p.dx),
                    **three(p, p.dx.spatial, p.dy.spatial), dy_strides=strides_of(p.dy, channel=False),
                    dx_strides=strides_of(p.dx, channel=False))
