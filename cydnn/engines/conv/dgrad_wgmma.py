"""Gradient of a convolution with respect to its input: f16 and bf16, TMA and wgmma."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, Pointwise
from ...steps import Launch
from ...tensor import TensorDesc
from ..layout.copies import copied
from ..nested import AFTER_US, NestedOp, NestedOperand
from ..tile import sums
from ..tile.cost import TILES, order
from ..tile.line import GROUP_ROWS, Line, line_of
from ..tile.maps import tiled_map
from ..tile.matrices import too_many
from ..tile.store import along_m, form, is_whole
from . import mma
from .wgmma import ConvWgmma, Windows, in_lines

MAPS = 4                                         # classes that TMA stores
IN_BOXES, IN_ROWS = 1.25, 1.5                    # what classes take of what their tiles say, by the way out
FEW = 8                                          # channels of a pixel that are written one after the other


@dataclass(frozen=True)
class Classes(Windows):
    """A stride other than 1: the pixels of dx of one residue are a convolution of unit stride with a part of
    the taps (kernels_src/conv/conv_dgrad_wgmma.cu). ``out`` is the size of the largest class; ``first`` and
    ``reach`` hold for all."""
    reached: ClassVar[str] = "the distance of pixels that meet taps"
    classes: int = 1
    reach: tuple = ()
    longest: tuple = ()                          # taps of the class that has the most

    def depth(self, line: Line) -> int:
        """The mean. Each tap belongs to one class."""
        lines = prod(self.taps) * ceil_div(self.channels, line.elements)
        return line.elements * ceil_div(lines, self.classes)


def _reads(taps: int, stride: int, dilation: int, pad: int) -> list:
    """(first, last) tap of the pixel 0 of each class in one dim that has any: pixels of dy."""
    found = []
    for e in range(min(stride, taps)):
        last = ceil_div(pad, stride) - (e * dilation + -pad % stride) // stride
        found.append((last - (taps - 1 - e) // stride * dilation, last))
    return found


@once_per_match
def _classes(p) -> Classes:
    g = mma.geometry(p)
    reads = [_reads(*dim) for dim in zip(g.taps, g.stride, g.dilation, g.pad)]
    first = tuple(min(low for low, _ in dim) for dim in reads)
    reach = tuple(max(high for _, high in dim) - low for dim, low in zip(reads, first))
    largest, longest = (tuple(map(ceil_div, counts, g.stride)) for counts in (g.size, g.taps))
    return Classes("dy", g.out, largest, g.taps, (1, 1, 1), first, g.dilation, g.k, g.c,
                   g.groups, g.is_flipped, "bn", prod(g.stride), reach, longest)


def _class_maps(p, g) -> tuple:
    """Of dx: the pixels of each class, without depth, by the first of them."""
    d, (width, height) = p.dx, (*p.dx.strides[:1:-1], 0)[:2]
    (_, tall, wide), (_, down, right) = g.size, g.stride
    dims, strides = (d.c, wide // right, tall // down, d.n), (right * width, down * height, d.strides[0])
    found = [tiled_map(p.ptr("dx", d.dtype.bytes * (a * height + b * width)), d, dims, strides, GROUP_ROWS)
             for a in range(down) for b in range(right)]
    return tuple(replace(one, corners=((0, 0), (0, 0)), steps=(1, 1, 1, 1)) for one in found)


def is_turned(p) -> bool:
    """Filters of several groups, of which whole lines would have those of the next one."""
    g = mma.geometry(p)
    return g.groups > 1 and g.k % line_of(p).elements > 0 and set(g.stride) == {1}


class ConvDgradWgmma(ConvWgmma):
    """The convolution of dy with the filters from their last tap on: TMA brings pixels of dy, wgmma reads the
    filters across. Strides other than 1 by classes of pixels, in one launch. Channels are innermost; deep
    sums of unit stride are split and added in order. stays: as of conv_fprop_wgmma, of unit stride."""
    index = 137
    takes = core(ConvDgrad, behind=many(Pointwise), last=sums.LAST)
    v5 = ("ALGO_1",)

    def refuse(self, p, dev):
        g = mma.geometry(p)
        wrong = list(mma.stride_shares_factor(g))
        yield from wrong
        if not wrong and p.last and set(g.stride) != {1}:
            yield f"stride must be 1 where columns of dx are added up; got {g.stride}"
        elif not wrong:
            yield from too_many("pixels of dx", g.n * prod(g.size))
            yield from super().refuse(p, dev)

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        if set(g.stride) != {1}:
            return _classes(p)
        first = tuple(a - (r - 1) * d for a, r, d in zip(g.pad, g.taps, g.dilation))
        return Windows("dy", g.out, g.size, g.taps, (1, 1, 1), first, g.dilation, g.k, g.c, g.groups,
                       not g.is_flipped, "bk" if is_turned(p) else "bn")

    def refuse_others(self, p, v, lead, g):
        if is_turned(p) and in_lines(p.w) and mma.pixel_stride(p.w) is None:
            yield from mma.no_pixel_stride("w", p.w)
        else:
            yield from super().refuse_others(p, v, lead, g)

    # ---- Filters of groups that are no whole lines: a copy, the filters innermost ----

    @once_per_match
    def turn(self, p) -> NestedOp:
        """Of the filters and channels of all groups, tap after tap."""
        w, groups, taps = p.w, mma.geometry(p).groups, prod(p.w.spatial)
        k, (filter_step, channel_step) = w.n // groups, w.strides[:2]
        dims = taps, k, groups, w.c
        given = TensorDesc(w.dtype, dims, (mma.pixel_stride(w), filter_step, k * filter_step, channel_step))
        turned = TensorDesc(w.dtype, dims, (w.n * w.c, 1, w.c * k, k))
        return copied(NestedOperand(given, p.ptr("w"), w.alignment),
                      NestedOperand(turned, p.scratch(turned.bytes)))

    def filters_read(self, p):
        if not is_turned(p):
            return super().filters_read(p)
        k, rows = p.w.n // mma.geometry(p).groups, mma.geometry(p).groups * p.w.c
        taps = TensorDesc.packed(p.w.dtype, (rows, k, *p.w.spatial), "nhwc").strides[2:]
        return TensorDesc(p.w.dtype, (rows, k, *p.w.spatial), (k, 1, *(step * rows for step in taps)))

    def filters(self, p, dev, steps):
        if not is_turned(p):
            return super().filters(p, dev, steps)
        steps += self.turn(p).steps(dev)
        return self.turn(p).where[2]

    def copy_us(self, p, dev):
        return self.turn(p).choice(dev)[0] + AFTER_US if is_turned(p) else super().copy_us(p, dev)

    def boxes(self, p, side=GROUP_ROWS):
        """Of classes: a map of the pixels of each, by the first, where the classes of an image have one size
        and whole lines of channels."""
        v, (lead, m), d = self.windows(p), self.matrices(p), p.dx
        if not isinstance(v, Classes):
            return super().boxes(p, side)
        g = mma.geometry(p)
        if (v.classes > MAPS or g.stride[0] * g.size[0] > 1 or m.n % line_of(p).elements or not lead.is_native
                or self.tail(p) is not None or not in_lines(d) or d.alignment < 16
                or any(n % s for n, s in zip(g.size, g.stride))):
            return None
        found = _class_maps(p, g)
        return None if any(reason for one in found for reason in kernels.map_reasons(one)) else found

    def may_stream(self, p):
        return not isinstance(self.windows(p), Classes)

    def work(self, p, g, dev, tile, cast=1):
        """Of all classes alike, but at least of the longest alone."""
        v, (blocks, every) = self.windows(p), super().work(p, g, dev, tile, cast)
        if not isinstance(v, Classes):
            return blocks, every
        alone = super().work(p, replace(g, batch=(v.groups, 1, 1, 1, 1, 1)), dev, tile)[1]
        longest = self.step(p) * prod(v.longest) * ceil_div(v.channels, self.step(p))
        out = IN_ROWS if self.boxes(p) is None else IN_BOXES

        def estimate(splits, depth, team=1):
            return out * max(every(splits, depth, team), alone(splits, ceil_div(longest, team), team))
        return blocks, estimate

    def kernel(self, p, tile):
        is_strided = isinstance(self.windows(p), Classes)
        return f"conv_dgrad_wgmma_{p.w.dtype}_{tile}" if is_strided else super().kernel(p, tile)

    def plan(self, p, dev, config):
        if not isinstance(self.windows(p), Classes):
            return super().plan(p, dev, config)
        v, (lead, m), tile, steps = self.windows(p), self.matrices(p), TILES[config.tile], []
        g, team = mma.geometry(p), getattr(self.cut(p, dev, config), "team", 1)
        dy, w = self.operands(p, v, dev, tile, steps)
        boxes = (self.boxes(p) or ()) if config.get("store", "tma") == "tma" else ()
        maps = (*boxes, *[w] * MAPS)[:MAPS]
        divisors = order(m, tile, v.groups)
        tiles = divisors[0] * v.groups           # of a class
        blocks = tiles * v.classes * team if team > 1 else min(tiles * v.classes, dev.sms)
        args = dict(dy=dy, w=w, **{f"box{i}": x for i, x in enumerate(maps)}, **lead.store(p),
                    alpha=p.scalar("alpha"), m=m.m, n=m.n, classes=v.classes, groups=v.groups,
                    team=team, order=divisors, rounds=(blocks, v.classes, max(tiles % blocks, 1)),
                    dx_form=form(boxes, is_fused=False, is_whole=is_whole(m, lead.tensor)),
                    dx_along_m=int(m.n <= FEW or along_m(m)),
                    rank=len(dy.dims), channels=v.channels, is_flipped=int(v.is_flipped), dx_m=m.c[0],
                    dx_n=m.c[1], out=v.out, stride=g.stride, size=g.size, taps=v.taps, first=v.first,
                    wrap=tuple(-a % s for a, s in zip(g.pad, g.stride)),
                    up=tuple(ceil_div(a, s) for a, s in zip(g.pad, g.stride)), dilation=v.dilation)
        return [*steps, Launch(self.kernel(p, config.tile), args, dict(blocks=blocks),
                               fusion.at("epilogue", self.tail(p)))]
