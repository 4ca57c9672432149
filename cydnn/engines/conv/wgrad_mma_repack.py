"""Filter gradient on tensor cores for NCHW and other layouts with dense pixels."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvWgrad, Pointwise
from . import mma
from .wgrad_mma_view import WgradMma


class ConvWgradMmaRepack(WgradMma):
    """ConvWgradMma for NCHW and other layouts with dense pixels: x and dy are copied to NHWC first."""
    index = 151
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)

    def refuse_layout(self, p):
        if p.x.is_packed("nhwc") and p.dy.is_packed("nhwc"):
            yield "x and dy are packed NHWC; conv_wgrad_mma takes them without a copy"
        yield from mma.no_pixel_stride("x", p.x)
        yield from mma.no_pixel_stride("dy", p.dy)
