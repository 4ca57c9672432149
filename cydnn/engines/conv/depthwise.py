"""Depthwise convolutions, channels contiguous in the images: three directions."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Engine, memory_us, no_variant, wrong_device
from ..tile.matrices import MOST, too_many
from .view import Geometry, behind_filter, behind_image, geometry, parts, pixels_of

STRIP = 4                                        # outputs along the last dim that a thread makes
SMEM = 48 << 10
BLOCK_BYTES, LANES_LOG = 256, 4                  # most channels of a block, threads along them
LOADED = 11                                      # bytes a clock of an SM


class Depthwise(Engine):
    """The base: refusals, time, and the launch that forward and data gradient share."""

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        wrong = [*no_variant(p, "conv/conv_depthwise.cu", *p.op.reads)]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.operands[p.op.reads[0]].dtype} tensors; got {p.op.compute}"
        dtype, (image, filters, out) = p.operands[p.op.reads[0]].dtype, parts(p, self.lead(p))
        c, k = filters.c, filters.n * filters.c // image.c
        if (c, k) != (1, 1):
            yield f"each group must have one channel and one filter; got {c} and {k}"
        g, vector = self.geometry(p), 16 // dtype.bytes
        if g.groups % vector:
            yield f"groups must be a multiple of {vector}, a channel each (16-byte loads); got {g.groups}"
        names = (p.op.parts[0], p.op.parts[2])
        for name, tensor, lifted in zip(names, (image, out), (g.x, g.y)):
            if lifted.c_step != 1 or any(s % vector for s in (lifted.n_step, *lifted.steps)):
                yield (f"{name} must have contiguous channels and other strides that are multiples "
                       f"of {vector}; got strides {tensor.strides}")
            if tensor.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {tensor.alignment}"
            yield from too_many(f"pixels of {name} (n and spatial dims)", pixels_of(tensor))
        if prod(g.w.size) * BLOCK_BYTES // dtype.bytes * 4 > SMEM:
            most = SMEM * dtype.bytes // (4 * BLOCK_BYTES)
            yield f"the filter must have at most {most} taps; got {prod(g.w.size)}"
        yield from fusion.reasons(self.fused(p))

    @staticmethod
    def lead(p):
        return p.lead(p.operands[p.op.reads[0]].dtype.name)

    def geometry(self, p) -> Geometry:
        return geometry(p, self.lead(p))

    def fused(self, p):
        kind = p.operands[p.op.reads[0]].dtype
        return behind_image(p, kind.name, 16 // kind.bytes)

    def cost(self, p, dev, config):
        """Memory, or the loads from L1: one vector a tap and output, where a strip does not share them, of
        whole blocks of channels, at a rate that was measured on an H200."""
        g = self.geometry(p)
        block = 16 << self.lanes_log(g, p.operands[p.op.reads[0]].dtype)
        wide = ceil_div(g.groups * p.operands[p.op.reads[0]].dtype.bytes, block) * block
        loads = prod(g.w.size) * wide * g.out_pixels / (dev.sms * LOADED * dev.clock_mhz)
        if self.slides(g):
            loads *= (g.w.size[2] + STRIP - 1) / (g.w.size[2] * STRIP)
        loads += dev.launch_us
        return max(memory_us(p, dev, efficiency=0.6), loads)

    @staticmethod
    def lanes_log(g, dtype) -> int:
        """Of the threads along the channels: all there are, or those of a block."""
        vectors = ceil_div(g.groups * dtype.bytes, 16)
        return min(max(vectors - 1, 0).bit_length(), LANES_LOG)

    @staticmethod
    def slides(g) -> bool:
        """The last dim has steps of one pixel."""
        return g.stride[2] == g.dilation[2] == 1

    def direct(self, p, x, y, source, w_start, w_steps, **geometry):
        """The launch of conv_depthwise that reads ``x`` (Lifted) and writes ``y``."""
        lead, width = self.lead(p), y.size[2]
        store, g = lead.store(p), self.geometry(p)
        strips = ceil_div(width, STRIP)
        args = dict(x=p.ptr(source), w=p.ptr("w", w_start * p.w.dtype.bytes), y=store[p.op.writes[0]],
                    beta=store["beta"], alpha=p.scalar("alpha"), channels=y.c,
                    strips=y.n * y.size[0] * y.size[1] * strips, width=width, out=(*y.size[:2], strips),
                    lanes_log=self.lanes_log(g, p.w.dtype), slides=int(self.slides(g)), size=x.size,
                    w_s=w_steps, x_n=x.n_step, x_s=x.steps, y_n=y.n_step, y_s=y.steps, **geometry)
        return [Launch(f"conv_depthwise_{p.w.dtype}", args, {}, fusion.at("epilogue", self.fused(p)))]


class ConvFpropDepthwise(Depthwise):
    """A thread makes 16 bytes of channels of four neighbouring outputs;
    filters in shared memory, sums in f32."""
    index = 108
    takes = core(ConvFprop, behind=many(Pointwise))

    def plan(self, p, dev, config):
        if self.lead(p).tensor.count == 0:
            return []
        g = self.geometry(p)
        return self.direct(p, g.x, g.y, "x", g.w_start, g.w.steps, w_c=g.w.n_step, taps=g.w.size,
                           stride=g.stride, pad=g.pad, dilation=g.dilation, divide=(1, 1, 1), skip=0)


class ConvDgradDepthwise(Depthwise):
    """The forward kernel on dy with the filter read backwards;
    between the pixels of a strided dy it skips."""
    index = 128
    takes = core(ConvDgrad, behind=many(Pointwise))

    def plan(self, p, dev, config):
        if self.lead(p).tensor.count == 0:
            return []
        g = self.geometry(p)
        last, backwards = g.w.flipped()
        pad = [d * (r - 1) - b for d, r, b in zip(g.dilation, g.w.size, g.pad)]
        return self.direct(p, g.y, g.x, "dy", g.w_start + last, backwards.steps, w_c=g.w.n_step,
                           taps=g.w.size, stride=(1, 1, 1), pad=pad, dilation=g.dilation, divide=g.stride,
                           skip=1)


class ConvWgradDepthwise(Depthwise):
    """Blocks sum ranges of pixels for 256 bytes of channels,
    and the ranges are added in order: equal in every run."""
    index = 148
    takes = core(ConvWgrad, behind=many(Pointwise))

    def fused(self, p):
        return behind_filter(p, (p.x.dtype.name,), channel_inner=False)

    @staticmethod
    def lanes_log(g, dtype):
        return LANES_LOG

    @staticmethod
    def slides(g):
        return False

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        lead, g, dtype = self.lead(p), self.geometry(p), p.x.dtype
        if lead.tensor.count == 0:
            return []
        taps, pixels, count = prod(g.w.size), g.out_pixels, lead.tensor.count
        columns = ceil_div(g.groups * dtype.bytes, BLOCK_BYTES)
        wish = max(min(4 * dev.sms // columns, pixels // 64, MOST // count), 1)
        each = max(ceil_div(pixels, wish), 1)
        splits = max(ceil_div(pixels, each), 1)
        parts, store = p.scratch(splits * count * 4), lead.store(p)
        if lead.is_native:
            store["dw"] += g.w_start * dtype.bytes
        sums = dict(x=p.ptr("x"), dy=p.ptr("dy"), parts=parts, channels=g.groups, pixels=pixels,
                    split_pixels=each, out=g.y.size, size=g.x.size, taps=g.w.size, stride=g.stride, pad=g.pad,
                    dilation=g.dilation, x_n=g.x.n_step, x_s=g.x.steps, dy_n=g.y.n_step, dy_s=g.y.steps)
        total = dict(parts=parts, **store, alpha=p.scalar("alpha"), count=count, splits=splits,
                     channel_inner=0, rows=taps, digit=g.w.size[::-1], dw_k=g.w.n_step, dw_c=0,
                     dw_s=g.w.steps)
        return [Launch(f"conv_depthwise_wgrad_{dtype}", sums, dict(splits=splits)),
                Launch(f"conv_wgrad_simt_sum_{dtype}", total, {}, fusion.at("epilogue", self.fused(p)))]
