"""Forward convolution of f16 and bf16 on Hopper's tensor cores: TMA (im2col) and wgmma."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from ..tile import sums
from . import mma
from .wgmma import ConvWgmma, Windows


class ConvFpropWgmma(ConvWgmma):
    """TMA brings the pixels of a tap and 64 channels, wgmma multiplies them with the filters, sums in f32;
    blocks stay and take tile after tile. Channels are innermost; deep sums are split and added in order.
    resident=128|64: the filters of so many channels of y stay in shared memory, and four warpgroups take rows
    each by itself; of depths of up to 512 or 1024."""
    index = 117
    takes = core(ConvFprop, behind=many(Pointwise), last=sums.LAST)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        return Windows("x", g.size, g.out, g.taps, g.stride, tuple(-a for a in g.pad), g.dilation, g.c, g.k,
                       g.groups, g.is_flipped, "bk")
