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

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_whole_planes(p, "x", "y")
        cells = prod(p.x.spatial)
        if p.x.dtype.bytes_of(cells) > BLOCK_BYTES:
            yield f"planes must have at most {BLOCK_BYTES} bytes; got {cells} elements of {p.x.dtype}"
        yield from unaligned("x", p.x)
        yield from too_many("planes", p.y.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.8)

    def plan(self, p, dev, config):
        if not p.y.count:
            return []
        planes, cells = p.y.count, prod(p.x.spatial)
        group = max(1, min(BLOCK_BYTES // (cells * p.x.dtype.bytes), 256, ceil_div(planes, 4 * dev.sms)))
        team_log2 = min(5, 8 - log2_ceil(group), log2_ceil(cells))
        args = dict(planes=planes, cells=cells, group=group, team_log2=team_log2)
        return self.launches(p, args, state(p.op))


class PoolingBwdWhole(PoolingEngine):
    """The window is the plane: dx repeats dy / cells."""
    index, takes, kernel = 237, core(PoolingBwd), "pooling_bwd_whole"
    is_max, moves = False, ("dy", "dx")

    def refuse(self, p, dev):
        yield from self.shared_reasons(p, dev)
        yield from no_whole_planes(p, "dx", "dy")
        width = 128 // p.dx.dtype.bits
        if p.dx.count % width:
            yield f"dx must have a multiple of {width} elements (16 bytes); got {p.dx.count}"
        yield from unaligned("dx", p.dx)
        yield from too_many("elements of dx", p.dx.count)

    def cost(self, p, dev, config):
        return self.moved_us(p, dev, 0.85)

    def plan(self, p, dev, config):
        if not p.dx.count:
            return []
        args = dict(vectors=p.dx.count * p.dx.dtype.bytes // 16, cells=prod(p.dx.spatial))
        return self.launches(p, args)
