"""Divisive normalization of planes with w innermost: what both directions share."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ..lrn.view import width as word_of
from .walk import Walking, has_means

LANES = 32                                       # of a warp
FEWEST = 8                                       # lanes of a group that make results


class Planes(Walking):
    """A group of lanes has neighbouring columns of a plane and walks down its rows. ``halos``: how often
    lanes meet, each time the outermost ones of a group lack neighbours."""
    halos: ClassVar[int] = 1

    def limits(self, p, dev):
        yield from super().limits(p, dev)
        vec = self.vector(p)
        group = self.groups(p, vec)
        if group["segments"] > 1 and group["useful"] < FEWEST:
            yield (f"window must leave {FEWEST} of {LANES} lanes that make results; it leaves "
                   f"{group['useful']} with {vec} columns a lane")

    @classmethod
    def groups(cls, p, vec) -> dict:
        """How a row's columns are shared out among lanes."""
        across = ceil_div(p.x.dims[-1], vec)
        if across <= LANES:
            return dict(lanes_log2=max((across - 1).bit_length(), 1), lead=0, useful=across, segments=1)
        lead = ceil_div(cls.halos * (p.op.window // 2), vec)
        useful = LANES - 2 * lead
        return dict(lanes_log2=5, lead=lead, useful=useful, segments=ceil_div(across, max(useful, 1)))

    def tile(self, p, vec):
        group = self.groups(p, vec)
        return dict(group, channels=p.x.c, threads=1 << group["lanes_log2"])

    def share(self, p):
        vec = self.vector(p)
        group = self.groups(p, vec)
        busy = ceil_div(p.x.dims[-1], vec) / (group["segments"] << group["lanes_log2"])
        slow = {5: 1.0, 9: 0.7, 16: 0.4}[word_of(p.op.window)] * (0.8 if has_means(p) else 1.0)
        return 0.8 * slow * max(busy, 0.25)
