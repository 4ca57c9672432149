"""Data gradient of few filters, f16 and bf16, wgmma: each tile of dy read once for all taps."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from . import mma
from .halo import ConvHalo
from .wgmma import Windows


class ConvDgradHalo(ConvHalo):
    """At most 64 filters, unit stride: TMA brings a tile of dy and what its taps reach, which wgmma reads
    once for each tap, begun at another pixel. What the filters have of 64 channels of dx stays in shared
    memory."""
    index = 139
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    reads = "k"

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        first = tuple(a - (r - 1) * d for a, r, d in zip(g.pad, g.taps, g.dilation))
        return Windows("dy", g.out, g.size, g.taps, g.stride, first, g.dilation, g.k, g.c, g.groups,
                       not g.is_flipped, "am")
