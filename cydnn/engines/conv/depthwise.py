"""Depthwise convolution of channels-last tensors in three directions, without a matrix product."""
from __future__ import annotations

from math import prod

from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from .simt import Geometry, pixels_of
from ..engine import Engine, memory_us, wrong_device
from ..matmul.tiles import MOST, fuse, too_many, type_refusals
from ...steps import Launch

STRIP = 4                                        # outputs along the last dim that a thread makes
SMEM = 48 << 10
BLOCK_BYTES = 256                                # channels of a block


class Depthwise(Engine):
    """What the three directions share: one filter a channel, channels contiguous in the images."""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from type_refusals(p, "f32", "f16", "bf16")
        g, names = self.geometry(p), self.images
        images = [(name, p.out if name in p.op.writes else p.operands[name]) for name in names]
        vector = 16 // p.out.dtype.bytes
        if (g.c, g.k) != (1, 1):
            yield f"each group must have one channel and one filter; got {g.c} and {g.k}"
        if g.groups % vector:
            yield f"c must be a multiple of {vector} (16-byte loads); got {g.groups}"
        for (name, desc), image in zip(images, (g.x, g.y)):
            if image.c_step > 1 or any(s % vector for s in (image.n_step, *image.steps)):
                yield f"{name} must have contiguous channels and other strides that are multiples of {vector}; got strides {desc.strides}"
            if desc.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {desc.alignment}"
            yield from too_many(f"pixels of {name} (n and spatial dims)", pixels_of(desc))
        if prod(g.w.size) * BLOCK_BYTES // p.out.dtype.bytes * 4 > SMEM:
            yield f"the filter must have at most {SMEM * p.out.dtype.bytes // (4 * BLOCK_BYTES)} taps; got {prod(g.w.size)}"

    def geometry(self, p) -> Geometry:
        x, y = (p.out if name in p.op.writes else p.operands[name] for name in self.images)
        return Geometry.of(p.op, x, p.operands[self.filter], y)

    images = ("x", "y")
    filter = "w"

    def cost(self, p, dev):
        """Memory, or the loads from L1: one vector a tap and output."""
        g = self.geometry(p)
        loads = prod(g.w.size) * g.groups * g.out_pixels * p.out.dtype.bytes
        return max(memory_us(p, dev, efficiency=0.6), 2.0 + loads / (dev.sms * 48 * (dev.clock_mhz or 1500)))

    def direct(self, p, x, y, source, target, w_start, w_steps, fused=None, **geometry):
        """The launch of conv_depthwise that reads ``x`` (Lifted) and writes ``y``."""
        width = y.size[2]
        args = dict(x=p.ptr(source), w=p.ptr("w", w_start * p.w.dtype.bytes), y=target, alpha=p.scalar("alpha"), beta=p.scalar("beta"),
                    channels=y.c, strips=y.n * y.size[0] * y.size[1] * -(-width // STRIP), width=width,
                    out=(*y.size[:2], -(-width // STRIP)), size=x.size, w_s=w_steps, x_n=x.n_step, x_s=x.steps, y_n=y.n_step, y_s=y.steps, **geometry)
        return [Launch(f"conv_depthwise_{p.out.dtype}", args, {}, fused)]


class ConvFpropDepthwise(Depthwise):
    """A thread makes 16 bytes of channels of four neighbouring outputs; filters in shared memory, sums in f32."""
    index = 108
    op = ConvFprop
    fuses_epilogue = True

    def plan(self, p, dev):
        if p.out.count == 0:
            return []
        g = self.geometry(p)
        return self.direct(p, g.x, g.y, "x", p.out_ptr(), g.w_start, g.w.steps, fuse(p), w_c=g.w.n_step, taps=g.w.size,
                           stride=g.stride, pad=g.pad, dilation=g.dilation, divide=(1, 1, 1), skip=0)


class ConvDgradDepthwise(Depthwise):
    """The forward kernel on dy with the filter read backwards; between the pixels of a strided dy it skips."""
    index = 128
    op = ConvDgrad
    images = ("dx", "dy")

    def plan(self, p, dev):
        if p.dx.count == 0:
            return []
        g = self.geometry(p)
        last, backwards = g.w.flipped()
        pad = [d * (r - 1) - b for d, r, b in zip(g.dilation, g.w.size, g.pad)]
        return self.direct(p, g.y, g.x, "dy", p.ptr("dx"), g.w_start + last, backwards.steps, w_c=g.w.n_step, taps=g.w.size,
                           stride=(1, 1, 1), pad=pad, dilation=g.dilation, divide=g.stride, skip=1)


class ConvWgradDepthwise(Depthwise):
    """Blocks sum ranges of pixels for 256 bytes of channels, and the ranges are added in order: equal in every run."""
    index = 148
    op = ConvWgrad
    images = ("x", "dy")
    filter = "dw"

    def cost(self, p, dev):
        return 2.0 + super().cost(p, dev)

    def plan(self, p, dev):
        if p.dw.count == 0:
            return []
        g = self.geometry(p)
        taps, pixels = prod(g.w.size), g.out_pixels
        columns = -(-g.groups * p.dw.dtype.bytes // BLOCK_BYTES)
        wish = max(min(4 * dev.sms // columns, pixels // 64, MOST // p.dw.count), 1)
        each = max(-(-pixels // wish), 1)
        splits = max(-(-pixels // each), 1)
        parts = p.scratch(splits * p.dw.count * 4)
        sums = dict(x=p.ptr("x"), dy=p.ptr("dy"), parts=parts, channels=g.groups, pixels=pixels, split_pixels=each, out=g.y.size,
                    size=g.x.size, taps=g.w.size, stride=g.stride, pad=g.pad, dilation=g.dilation, x_n=g.x.n_step, x_s=g.x.steps,
                    dy_n=g.y.n_step, dy_s=g.y.steps)
        total = dict(parts=parts, dw=p.ptr("dw", g.w_start * p.dw.dtype.bytes), alpha=p.scalar("alpha"), beta=p.scalar("beta"), count=p.dw.count,
                     splits=splits, channel_inner=0, rows=taps, digit=g.w.size[::-1], dw_k=g.w.n_step, dw_c=0, dw_s=g.w.steps)
        return [Launch(f"conv_depthwise_wgrad_{p.dw.dtype}", sums, dict(splits=splits)), Launch(f"conv_wgrad_simt_sum_{p.dw.dtype}", total)]
