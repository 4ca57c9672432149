"""Data gradient on tensor cores for NCHW and other layouts with dense pixels:
copy to NHWC, convolve, copy back."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvDgrad
from ..engine import Engine
from . import mma
from .mma_launch import dgrad, dgrad_product, into_copy, not_stored


class ConvDgradMmaRepack(Engine):
    """ConvDgradMma between copies of dy to NHWC and of dx from it."""
    index = 131
    takes = core(ConvDgrad)
    v5 = ("ALGO_1",)
    knobs = (mma.KNOB,)
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.lead())
        yield from mma.stride_shares_factor(mma.geometry(p))
        yield from mma.refuse_layouts(p, dy=p.dy, w=p.w, dx=p.dx)
        yield from not_stored(p, "dx")

    def configs(self, p, dev):
        return mma.configs(dev, *dgrad_product(p))

    def cost(self, p, dev, config):
        return mma.copies_us(p, dev, "dy", "w", "dx") + mma.product_us(p, dev, config, *dgrad_product(p))

    def plan(self, p, dev, config):
        return into_copy(p, dgrad, config, ("dy", "w"), "dx")
