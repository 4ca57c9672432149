"""Forward convolution of few channels, f16 and bf16, wgmma: each tile of x read once for all taps."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from . import mma
from .halo import ConvHalo
from .wgmma import Windows


class ConvFpropHalo(ConvHalo):
    """At most 64 channels, unit stride: TMA brings a tile of x and what its taps reach, which wgmma reads
    once for each tap, begun at another pixel. The filters of 64 channels of y stay in shared memory."""
    index = 119
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    reads = "c"

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        return Windows("x", g.size, g.out, g.taps, g.stride, tuple(-a for a in g.pad), g.dilation, g.c, g.k,
                       g.groups, g.is_flipped, "ak")
