"""Forward convolution on tensor cores (mma.sync), NHWC or copied to it."""
from __future__ import annotations

from ... import fusion
from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from ..engine import Engine
from . import mma
from .mma_launch import fprop, fprop_product, into_copy, not_stored


class ConvFpropMma(Engine):
    """y[npq, k] = im2col(x)[npq, trsc] @ w[k, trsc]^T, the im2col done by index arithmetic;
    the epilogue fuses pointwise nodes."""
    index = 110
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    knobs = (mma.KNOB,)
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        lead, fused = mma.image_tail(p)
        yield from mma.refusals(p, dev, lead)
        yield from mma.not_nhwc("x", p.x)
        yield from mma.no_pixel_stride("w", p.w)
        yield from mma.not_nhwc("y", lead.tensor)
        yield from fusion.reasons(fused)

    def configs(self, p, dev):
        return mma.configs(dev, *fprop_product(p))

    def cost(self, p, dev, config):
        return mma.copies_us(p, dev, "x", "w") + mma.product_us(p, dev, config, *fprop_product(p))

    def plan(self, p, dev, config):
        (lead, fused), steps = mma.image_tail(p), []
        x, w = mma.packed_operand(p, "x", steps), mma.packed_operand(p, "w", steps)
        stored = mma.stored_type(p, lead)
        return [*steps, fprop(p, config, x, w, lead.store(p), stored, fusion.at("epilogue", fused))]


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
