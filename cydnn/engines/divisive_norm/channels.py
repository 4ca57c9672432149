"""Divisive normalization with channels innermost: what both directions share."""
from __future__ import annotations

from typing import ClassVar

from ...kernels.expressions import ceil_div
from ..lrn.view import width as word_of
from .walk import Walking, has_means

THREADS = 256                                    # of a block
LOGS = range(6)                                  # lanes of a column, as powers of two
WORTH = {64: 1.0, 32: 0.8, 1: 0.4}               # of that many bytes side by side


class Channels(Walking):
    """A block has some channels of neighbouring columns, a thread walks down the rows of one column.
    ``halos``: how often columns meet, each time the outermost ones of a block lack neighbours."""
    inner, outer = 1, -1
    halos: ClassVar[int] = 1

    @classmethod
    def group(cls, p, vec, lanes_log2) -> dict:
        """How channels and columns are shared out when a column has that many lanes."""
        vectors, width = ceil_div(p.x.c, vec), p.x.dims[-1]
        places = THREADS >> lanes_log2
        lead = 0 if width <= places else cls.halos * (p.op.window // 2)
        useful = width if width <= places else places - 2 * lead
        return dict(lanes_log2=lanes_log2, vectors=vectors, lead=lead, useful=useful,
                    segments=ceil_div(width, max(useful, 1)), channels=ceil_div(vectors, 1 << lanes_log2))

    @classmethod
    def busy(cls, p, vec, group) -> float:
        """The share of a block's threads that make results, less what narrow accesses cost."""
        if group["useful"] < 1 or not group["vectors"]:
            return 0.0
        made = p.x.dims[-1] * group["vectors"] / (group["segments"] * group["channels"] * THREADS)
        side_by_side = min(1 << group["lanes_log2"], group["vectors"]) * vec * p.x.dtype.bytes
        return made * next(worth for least, worth in WORTH.items() if side_by_side >= least)

    def groups(self, p, vec) -> dict:
        return max((self.group(p, vec, log2) for log2 in LOGS), key=lambda g: self.busy(p, vec, g))

    def tile(self, p, vec):
        return dict(self.groups(p, vec), threads=THREADS)

    def share(self, p):
        vec = self.vector(p)
        slow = {5: 1.0, 9: 0.7, 16: 0.4}[word_of(p.op.window)] * (0.8 if has_means(p) else 1.0)
        return 0.75 * slow * max(self.busy(p, vec, self.groups(p, vec)), 0.1)
