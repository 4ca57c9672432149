"""One tap and few channels, in three directions: neighbouring pixels are joined to whole lines of 64
channels, whose filters are zero where a pixel is not read, and run on tensor cores."""
from __future__ import annotations

from math import gcd, prod

import numpy as np

from ...graph import Graph, Match, Node, Tensor, core, once_per_match
from ...ops import ConvDgrad, ConvFprop, ConvWgrad
from ...steps import Launch
from ...tensor import TensorDesc
from ..engine import no_elements, no_variant, wrong_device
from ..nested import AFTER_US
from ..tile.line import LINES, line_of
from .dgrad_wgmma import ConvDgradWgmma
from .inner import InnerConv
from .wgmma import ConvFpropWgmma
from .wgrad_wgmma import ConvWgradWgmma

MOST = 8                                         # pixels that are joined: so often is the arithmetic done
BALANCE = 128                                    # multiply-adds in the time of an element, on an H200


def joined(line: int, read: list, c: int, k: int) -> int:
    """How many pixels become one: what is read fills lines, and what is written, too, where the arithmetic
    stays below the time of memory."""
    alone, both = (max(line // gcd(line, n) for n in channels) for channels in (read, (c, k)))
    return both if both * c * k <= BALANCE * (c + k) else alone


class JoinedPixels(InnerConv):
    """What the three directions share. Packed NHWC has the channels of neighbouring pixels beside each other:
    as channels of one pixel they fill whole lines of memory, which TMA reads and stores at full speed."""

    def refuse(self, p, dev):
        yield from wrong_device(dev, 90)
        names = p.op.reads if "w" in p.op.reads else p.op.parts
        wrong = [*no_variant(p, "conv/conv_groups_join.cu", *names), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        image, w, out = (p.operands[name] for name in p.op.parts)
        pre, post, stride, _ = p.op.geometry(image.rank)
        if prod(w.spatial) > 1 or max((*pre, *post)) > 0 or max(stride) > 1 or image.c != w.c:
            yield (f"{p.op.parts[1]} must have one tap, without padding, with unit strides and one group; "
                   f"got {w.spatial}, padding {pre} and {post}, strides {stride}, {image.c // w.c} groups")
            return
        for name in (p.op.parts[0], p.op.parts[2]):
            if not p.operands[name].is_packed("nhwc"):
                yield f"{name} must be packed NHWC; got strides {p.operands[name].strides}"
        joined, pixels = self.joined(p), image.n * prod(image.spatial)
        if not 1 < joined <= MOST:
            yield (f"channels of what is read must make whole lines of {line_of(p).elements} with those of "
                   f"2 to {MOST} pixels; got {[d.c for d in self.images(p)]}, of {joined}")
        elif pixels % joined:
            yield f"pixels must be a multiple of the {joined} that are joined; got {pixels}"
        elif reasons := self.untaken(p, dev):
            yield f"no engine takes the convolution of joined pixels: {reasons}"

    @staticmethod
    def images(p) -> list:
        """What is read of images."""
        return [p.operands[name] for name in p.op.reads if name != p.op.parts[1]]

    def joined(self, p) -> int:
        """How many pixels become one."""
        image, _, out = (p.operands[name] for name in p.op.parts)
        return joined(line_of(p).elements, [d.c for d in self.images(p)], image.c, out.c)

    @once_per_match
    def nested(self, p) -> Match:
        """The convolution of joined pixels: of one row, in one image."""
        joined, tensors = self.joined(p), []
        for uid, name in enumerate(p.op.parts, 1):
            given = p.operands[name]
            wide = (1, joined * given.c, *(1,) * (given.rank - 3), given.n * prod(given.spatial) // joined)
            dims = (joined * given.n, joined * given.c, *given.spatial) if uid == 2 else wide
            kind = "f32" if uid == 2 and name in p.op.writes else given.dtype
            tensors.append(Tensor(uid, TensorDesc.packed(kind, dims, "nhwc"),
                                  alignment=16 if uid == 2 else given.alignment))
        scaled = {} if "dw" in p.op.writes else {name: p.scalar(name) for name in ("alpha", "beta")}
        return Match.single(Graph([Node(p.op, dict(zip(p.op.parts, (1, 2, 3))), scaled)], tensors))

    def cost(self, p, dev, config):
        return dev.launch_us + AFTER_US + self.found(p, dev)[0][0]

    def plan(self, p, dev, config):
        (image, _, out), w, joined = p.op.parts, p.w, self.joined(p)
        count = joined * joined * w.n * w.c
        filters = p.scratch(count * w.dtype.bytes)
        join = Launch(f"conv_groups_join_{w.dtype}", dict(
            w=p.ptr("w"), joined=filters, count=count, group_channels=w.c, channels=joined * w.c, filters=w.n,
            group_filters=w.n, groups=joined, taps=(1, 1, 1), w_k=w.strides[0], w_c=w.strides[1],
            w_s=(0, 0, 0)))
        return [join, *self.steps(p, dev, {1: p.ptr(image), 2: filters, 3: p.ptr(out)})]

    def magnitude(self, op, arrays, scalars, results):
        """The op's, but where zeros multiply what is no number in another of the joined pixels."""
        found = op.magnitude(arrays, scalars, results)
        read, out = arrays[op.reads[0]], op.writes[0]
        if out == op.parts[1]:                   # what other pixels have is left out
            return found
        wrong = ~np.isfinite(np.moveaxis(read, 1, -1)).all(-1).reshape(-1)       # by pixel
        together = joined(LINES["f16"].elements, [read.shape[1]], *arrays["w"].shape[1::-1])
        if not wrong.any() or len(wrong) % together:
            return found
        reached = np.repeat(wrong.reshape(-1, together).any(1), together)
        reached = reached.reshape(read.shape[0], 1, *read.shape[2:])
        return {out: np.where(reached, np.nan, found[out])}


class ConvFpropJoinedPixels(JoinedPixels):
    """Filters of one pixel become those of several beside each other, with zeros between them."""
    index, takes = 163, core(ConvFprop)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    inner = (ConvFpropWgmma(),)


class ConvDgradJoinedPixels(JoinedPixels):
    """Filters of one pixel become those of several beside each other, with zeros between them."""
    index, takes = 126, core(ConvDgrad)
    v5 = ("ALGO_1",)
    inner = (ConvDgradWgmma(),)


class ConvWgradJoinedPixels(JoinedPixels):
    """The gradient of joined pixels in f32, of which what is one pixel's is added up."""
    index, takes = 147, core(ConvWgrad)
    v5 = ("ALGO_1",)
    inner = (ConvWgradWgmma(),)

    def plan(self, p, dev, config):
        (image, _, out), dw, joined = p.op.parts, p.dw, self.joined(p)
        sums = p.scratch(4 * joined * joined * dw.n * dw.c)
        part = Launch(f"conv_groups_part_{dw.dtype}", dict(
            joined=sums, dw=p.ptr("dw"), alpha=p.scalar("alpha"), beta=p.scalar("beta"), count=dw.count,
            channels=joined * dw.c, filters=dw.n, pixels=joined, group_channels=dw.c, group_filters=dw.n,
            groups=1, taps=(1, 1, 1), dw_k=dw.strides[0], dw_c=dw.strides[1], dw_s=(0, 0, 0)))
        return [*self.steps(p, dev, {1: p.ptr(image), 2: sums, 3: p.ptr(out)}), part]
