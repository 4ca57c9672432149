"""The tensor-core convolutions for NCHW and other layouts with dense pixels: copy to NHWC, convolve, copy back."""
from __future__ import annotations

from math import prod

from ...ops import ConvDgrad, ConvFprop
from . import dgrad_mma, fprop_mma
from . import mma
from ..engine import Engine, memory_us


def refuse_layouts(p, **descs):
    """At least one tensor is not packed NHWC, and all have dense pixels."""
    if all(d.is_packed("nhwc") for name, d in descs.items() if name != "w"):
        yield f"{' and '.join(name for name in descs if name != 'w')} are packed NHWC; the engine without copies takes them"
    for name, d in descs.items():
        yield from mma.no_pixel_stride(name, d)


class _Repack(Engine):
    notes = ("tensor_core", "deterministic")

    def configs(self, p, dev):
        return mma.tile_configs(dev)

    def convolve(self, p, g, launch, tile, names):
        """Steps: pack the inputs, launch into the output or a copy of it, unpack."""
        steps, out = [], names[-1]
        a, w = (mma.packed_operand(p, name, steps) for name in names[:2])
        d = p.operands[out]
        if d.is_packed("nhwc"):
            return [*steps, launch(p, g, tile, a, w, p.ptr(out), beta=p.scalar("beta"))]
        copy = p.scratch(d.n * prod(d.spatial) * d.c * 4)        # f32: rounded once, behind the blend
        return [*steps, launch(p, g, tile, a, w, copy, beta=0.0, store="f32"), mma.unpack(p, copy, out)]


class ConvFpropMmaRepack(_Repack):
    """ConvFpropMma between copies of x to NHWC and of y from it."""
    index = 111
    op = ConvFprop

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.x, p.w, p.y)
        yield from refuse_layouts(p, x=p.x, w=p.w, y=p.y)

    def cost(self, p, dev):
        g = mma.Geometry.of(p.op, p.x, p.w, p.y)
        return mma.copies_us(dev, p.x, p.w, p.y) + max(memory_us(p, dev), 2.0 + fprop_mma.gemm(g, dev)[1])

    def plan(self, p, dev, tile=None):
        g = mma.Geometry.of(p.op, p.x, p.w, p.y)
        tile = mma.named(tile) if tile else fprop_mma.gemm(g, dev)[0]
        return self.convolve(p, g, fprop_mma.launch, tile, ("x", "w", "y"))


class ConvDgradMmaRepack(_Repack):
    """ConvDgradMma between copies of dy to NHWC and of dx from it."""
    index = 131
    op = ConvDgrad

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.dx, p.w, p.dy, names=("dx", "w", "dy"))
        yield from mma.stride_shares_factor(mma.Geometry.of(p.op, p.dx, p.w, p.dy))
        yield from refuse_layouts(p, dy=p.dy, w=p.w, dx=p.dx)

    def cost(self, p, dev):
        g = mma.Geometry.of(p.op, p.dx, p.w, p.dy)
        return mma.copies_us(dev, p.dy, p.w, p.dx) + max(memory_us(p, dev), 2.0 + dgrad_mma.gemm(g, dev)[1])

    def plan(self, p, dev, tile=None):
        g = mma.Geometry.of(p.op, p.dx, p.w, p.dy)
        tile = mma.named(tile) if tile else dgrad_mma.gemm(g, dev)[0]
        return self.convolve(p, g, dgrad_mma.launch, tile, ("dy", "w", "dx"))
