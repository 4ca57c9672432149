"""Sums of each channel and of its squares in one read of x, with pointwise operations in front of it."""
from __future__ import annotations

from ... import fusion
from ...fusion import Builder, Site
from ...graph import core, many, once_per_match
from ...ops import GenStats, Pointwise
from ...steps import Launch
from ..engine import memory_us, no_elements
from .batch_norm_any import SHARE, BatchNormAny
from .view import RAMP_US
from .walk import SplitWalk, by_stride, walk_of

ROOM = 4                                         # digits of an index that the kernel has


class GenStatsAny(BatchNormAny):
    """One read of x, in splits whose sums a second launch adds in a fixed order."""
    index = 490
    takes = core(GenStats, before=many(Pointwise, at="x", leaves=True))
    pointed, part_values = False, 2

    @once_per_match
    def lead(self, p, name):
        found = super().lead(p, name)
        return p.x if found.dims != p.x.dims else found

    @once_per_match
    def walk(self, p, lanes: int) -> SplitWalk | None:
        x = self.lead(p, "x")
        return walk_of((1,), x, dict(x=x), {}, lanes)

    def refuse(self, p, dev):
        yield from no_elements(dict(x=p.x))
        digits = len(self.walk(p, 1).view.row_dims)
        if digits > ROOM:
            yield f"x must have samples of at most {ROOM} strides; got {digits}"
        yield from super().refuse(p, dev)

    def last(self, p, lanes) -> dict:
        return {mark: self.result(p, name) for mark, name in (("dscale", "sum"), ("dbias", "sq_sum"))}

    @fusion.attempt
    def result(self, p, name):
        builder = Builder("f32", Site(p.operands[name].dims, None, (("col", by_stride(p.x, (1,))),)), p.graph)
        builder.values[p.uids[name]] = "v"
        builder.store(p.uids[name])
        return builder.finish("")

    def cost(self, p, dev, config):
        return memory_us(p, dev, efficiency=SHARE[config.channels > 1]) + dev.launch_us + 2 * RAMP_US

    def plan(self, p, dev, config):
        lanes = config.channels
        walk = self.walk(p, lanes)
        cut = walk.cut(config.splits)
        part = self.parts(p, walk, cut)
        return [walk.launch("gen_stats", cut, ("x",), ("x",), self.first(p, lanes), part=part),
                Launch("norm_bwd_sums", dict(part=part, parts=cut.splits, cols=walk.view.cols),
                       dict(groups=1), self.last(p, lanes))]
