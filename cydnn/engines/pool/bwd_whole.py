"""Gradient of global average pooling of packed planes."""
from __future__ import annotations

from math import prod

from ...graph import core
from ...ops import PoolingBwd
from .view import PoolingEngine, no_whole_planes, too_many, unaligned


class PoolingBwdWhole(PoolingEngine):
    """The window is the plane: dx repeats dy / cells."""
    index, takes, kernel = 237, core(PoolingBwd), "pooling_bwd_whole"
    is_max, moves, share = False, ("dy", "dx"), 0.85

    def limits(self, p, dev):
        yield from no_whole_planes(p, "dx", "dy")
        width = 128 // p.dx.dtype.bits
        if p.dx.count % width:
            yield f"dx must have a multiple of {width} elements (16 bytes); got {p.dx.count}"
        yield from unaligned("dx", p.dx)
        yield from too_many("elements of dx", p.dx.count)

    def args(self, p, dev):
        return dict(vectors=p.dx.count * p.dx.dtype.bytes // 16, cells=prod(p.dx.spatial))
