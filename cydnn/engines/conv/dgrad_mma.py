"""Gradient of a convolution with respect to its input on tensor cores (mma.sync), NHWC, any stride."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from ..engine import Engine
from . import mma
from .mma_launch import dgrad, dgrad_product

CLASSES = 1.18                                   # what classes of pixels take of what their tiles say


class ConvDgradMma(Engine):
    """dx by parity classes: the pixels of one residue modulo the stride see a part of the taps,
    as a stride-1 correlation of dy; the epilogue fuses pointwise nodes."""
    index = 130
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    knobs = (mma.KNOB,)
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        lead, fused = mma.image_tail(p)
        yield from mma.refusals(p, dev, lead)
        yield from mma.stride_shares_factor(mma.geometry(p))
        yield from mma.not_nhwc("dy", p.dy)
        yield from mma.no_pixel_stride("w", p.w)
        yield from mma.not_nhwc("dx", lead.tensor)
        yield from fusion.reasons(fused)

    def configs(self, p, dev):
        return mma.configs(dev, *dgrad_product(p))

    def cost(self, p, dev, config):
        classes = CLASSES if prod(mma.geometry(p).stride) > 1 else 1.0
        return mma.copies_us(p, dev, "dy", "w") + classes * mma.product_us(p, dev, config, *dgrad_product(p))

    def plan(self, p, dev, config):
        (lead, fused), steps = mma.image_tail(p), []
        dy, w = mma.packed_operand(p, "dy", steps), mma.packed_operand(p, "w", steps)
        stored = mma.stored_type(p, lead)
        return [*steps, dgrad(p, config, dy, w, lead.store(p), stored, fusion.at("epilogue", fused))]
