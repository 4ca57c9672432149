"""Gradient of a convolution of unit stride with respect to its input: f16 and bf16, TMA and wgmma."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from . import mma
from .wgmma import ConvWgmma, Windows


class ConvDgradWgmma(ConvWgmma):
    """The convolution of dy with the filters from their last tap on, for a stride of 1: TMA brings pixels of
    dy, wgmma reads the filters across. Channels are innermost; deep sums are split and added in order."""
    index = 137
    takes = core(ConvDgrad, behind=many(Pointwise))

    def refuse(self, p, dev):
        if set(p.op.geometry(p.w.rank)[2]) != {1}:
            yield f"stride must be 1; got {p.op.geometry(p.w.rank)[2]}"
        yield from super().refuse(p, dev)

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        first = tuple(a - (r - 1) * d for a, r, d in zip(g.pad, g.taps, g.dilation))
        return Windows("dy", g.out, g.size, g.taps, (1, 1, 1), first, g.dilation, g.k, g.c, g.groups,
                       not g.is_flipped, "bn")
