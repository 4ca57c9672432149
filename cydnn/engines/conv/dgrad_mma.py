"""Data gradient on tensor cores (mma.sync), NHWC or copied to it."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from ..engine import Engine
from . import mma
from .mma_launch import dgrad, dgrad_product, into_copy, not_stored

CLASSES, TAPS = 1.18, 1.1                        # what classes of pixels, and several taps, take of what
                                                 # their tiles say


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
        g = mma.geometry(p)
        more = CLASSES if prod(g.stride) > 1 else TAPS if prod(g.taps) > 1 else 1.0
        return mma.copies_us(p, dev, "dy", "w") + more * mma.product_us(p, dev, config, *dgrad_product(p))

    def plan(self, p, dev, config):
        (lead, fused), steps = mma.image_tail(p), []
        dy, w = mma.packed_operand(p, "dy", steps), mma.packed_operand(p, "w", steps)
        stored = mma.stored_type(p, lead)
        return [*steps, dgrad(p, config, dy, w, lead.store(p), stored, fusion.at("epilogue", fused))]


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
