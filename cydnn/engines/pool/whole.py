"""Global pooling of packed planes and the gradient of its averages."""
from __future__ import annotations

from math import prod

from ...graph import core
from ...kernels.expressions import ceil_div
from ...ops import PoolingBwd, PoolingFwd
from .view import PoolingEngine, log2_ceil, no_whole_planes, state, too_many, unaligned

BLOCK_BYTES = 16384                              # what a block reads at most


class PoolingFwdWhole(PoolingEngine):
    """The window is the plane: a block reads some planes as one run of memory."""
    index, takes, kernel = 233, core(PoolingFwd), "pooling_fwd_whole"

    def limits(self, p, dev):
        yield from no_whole_planes(p, "x", "y")
        cells = prod(p.x.spatial)
        if p.x.dtype.bytes_of(cells) > BLOCK_BYTES:
            yield f"planes must have at most {BLOCK_BYTES} bytes; got {cells} elements of {p.x.dtype}"
        yield from unaligned("x", p.x)
        yield from too_many("planes", p.y.count)

    def variant(self, p):
        return (state(p.op),)

    def args(self, p, dev):
        planes, cells = p.y.count, prod(p.x.spatial)
        group = max(1, min(BLOCK_BYTES // (cells * p.x.dtype.bytes), 256, ceil_div(planes, 4 * dev.sms)))
        team_log2 = min(5, 8 - log2_ceil(group), log2_ceil(cells))
        return dict(planes=planes, cells=cells, group=group, team_log2=team_log2)


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
