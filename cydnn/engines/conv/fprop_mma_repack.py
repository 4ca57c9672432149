"""Forward convolution on tensor cores for NCHW and other layouts with dense pixels:
copy to NHWC, convolve, copy back."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvFprop
from ..engine import Engine
from . import mma
from .mma_launch import fprop, fprop_product, into_copy, not_stored


class ConvFpropMmaRepack(Engine):
    """ConvFpropMma between copies of x to NHWC and of y from it."""
    index = 111
    takes = core(ConvFprop)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    knobs = (mma.KNOB,)
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.lead())
        yield from mma.refuse_layouts(p, x=p.x, w=p.w, y=p.y)
        yield from not_stored(p, "y")

    def configs(self, p, dev):
        return mma.configs(dev, *fprop_product(p))

    def cost(self, p, dev, config):
        return mma.copies_us(p, dev, "x", "w", "y") + mma.product_us(p, dev, config, *fprop_product(p))

    def plan(self, p, dev, config):
        return into_copy(p, fprop, config, ("x", "w"), "y")
