"""Forward convolution of f16 and bf16 on Hopper's tensor cores: TMA (im2col) and wgmma."""
from __future__ import annotations

from dataclasses import replace
from math import prod

from ... import fusion, kernels
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...kernels.tensor_map import OFFSETS
from ...ops import ConvFprop, Pointwise
from ...steps import TensorMap
from ..matmul.blocks import BYTES, DEPTH, LINE, TILES, TileProgram, tiled_map
from ..matmul.view import Matrices, along_m, is_whole, size_refusals
from . import mma
from .view import image_site

SOURCE = "conv/conv_wgmma.cu"


class ConvFpropWgmma(TileProgram):
    """TMA brings the pixels of a tap and 64 channels, wgmma multiplies them with the filters, sums in f32;
    blocks stay and take tile after tile. Channels are innermost; deep sums are split and added in order."""
    index = 117
    takes = core(ConvFprop, behind=many(Pointwise))

    def refuse(self, p, dev):
        wrong = list(self.wrong(p, dev, SOURCE))
        wrong += [f"{name} is empty" for name, d in p.operands.items() if not d.count]
        yield from wrong
        if wrong:
            return
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.x.dtype} tensors; got {p.op.compute}"
        geometry, (lead, g) = mma.geometry(p), self.matrices(p)
        yield from size_refusals(g)
        if geometry.groups > 1 and geometry.c % LINE:
            yield f"c of a group must be a multiple of {LINE}; got {geometry.c} in {geometry.groups} groups"
        if pixel_step(lead.tensor) is None:
            yield f"y must have its pixels at one distance; got strides {lead.tensor.strides}"
        rank, reach = max(p.x.rank, 4), [(r - 1) * d for r, d in zip(geometry.taps, geometry.dilation)]
        if max(reach) > OFFSETS[rank]:
            yield (f"(size - 1) * dilation of w must be at most {OFFSETS[rank]} in {rank - 2} dims; "
                   f"got {tuple(reach)}")
        yield from self._wrong_operands(p, geometry)
        yield from fusion.reasons(self.tail(p))

    def _wrong_operands(self, p, geometry):
        for name, make in (("x", self._pixels), ("w", self._filters)):
            d = p.operands[name]
            if d.strides[1] != 1 and d.c > 1 or any(s % 8 for n, s in _outer(d) if n > 1):
                yield (f"{name} must have contiguous channels, and other strides that are multiples of 8 "
                       f"(16 bytes); got strides {d.strides}")
                continue
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
            yield from (f"{name}: {reason}" for reason in
                        kernels.map_reasons(make(p, geometry, TILES["128x256"])))

    def matrices(self, p):
        """(lead of y, the product of im2col(x) and the filters, one for each group). Each tap is a
        multiple of 64 deep."""
        def make():
            geometry, lead = mma.geometry(p), p.lead(p.x.dtype.name)
            depth = DEPTH * prod(geometry.taps) * ceil_div(geometry.c, LINE)
            channel = lead.tensor.strides[1] if lead.tensor.c > 1 else 0
            groups, still = (geometry.groups, 1, 1, 1, 1, 1), (0,) * 6
            own = (geometry.k * channel if geometry.groups > 1 else 0, 0, 0, 0, 0, 0)
            return lead, Matrices(geometry.pixels, geometry.k, depth, (0, 0), (0, 0),
                                  (pixel_step(lead.tensor) or 0, channel), groups, still, still, own, ())
        return p.once("wgmma matrices", make)

    def is_one_sum(self, p, g):
        return g.count > 1 or super().is_one_sum(p, g)       # the sum counts channels of one group

    def tail(self, p):
        lead, g = self.matrices(p)
        site = image_site(lead, 8 if is_whole(g, lead.tensor) else 1)
        return fusion.attempt(p, "wgmma", lambda: fusion.behind(p, site, lead, beta=lead.beta))

    # ---- Tensor maps ----

    @staticmethod
    def _pixels(p, geometry, tile) -> TensorMap:
        """The map of x: a base pixel for each pixel of y. Width first, and a height even in one dim."""
        count = max(p.x.rank - 2, 2)
        size, out, stride, pad = (values[::-1][:count] for values in (
            geometry.size, geometry.out, geometry.stride, geometry.pad))
        upper = tuple((q - 1) * s - a - (n - 1) for n, q, s, a in zip(size, out, stride, pad))
        gaps = (*p.x.strides[:1:-1], 0)[:count]
        found = tiled_map(p, "x", p.x, (p.x.c, *size, p.x.n), (*gaps, p.x.strides[0]), (LINE, tile.m))
        return replace(found, steps=(1, *stride, 1), corners=(tuple(-a for a in pad), upper))

    @staticmethod
    def _filters(p, geometry, tile) -> TensorMap:
        """The map of w: channels, filters, then the taps."""
        dims = (p.w.c, p.w.n, *geometry.taps[::-1])
        strides = (p.w.strides[0], *p.w.strides[:1:-1], 0, 0)[:4]
        return tiled_map(p, "w", p.w, dims, strides, (LINE, tile.n, 1, 1, 1))

    def moved_bytes(self, p, g):
        geometry = mma.geometry(p)
        touched = prod(min(n, q * r) for n, q, r in zip(geometry.size, geometry.out, geometry.taps))
        return BYTES * (p.x.n * p.x.c * touched + p.w.count + g.count * g.m * g.n)

    # ---- Launches ----

    def plan(self, p, dev, config):
        geometry, (lead, g) = mma.geometry(p), self.matrices(p)
        x, w = (make(p, geometry, TILES[config.tile]) for make in (self._pixels, self._filters))
        boxes, form = self.out(p, config, w)
        args = dict(x=x, w=w, boxes=boxes, **lead.store(p), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k,
                    groups=g.count, y_form=form, y_along_m=along_m(g), y_m=g.c[0], y_n=g.c[1],
                    rank=len(x.dims), channels=geometry.c, is_flipped=int(geometry.is_flipped),
                    out=geometry.out, taps=geometry.taps, stride=geometry.stride,
                    first=[-a for a in geometry.pad], dilation=geometry.dilation)
        return self.launch(p, dev, config, f"conv_wgmma_{p.x.dtype}_{config.tile}_bk", args, "y")


def _outer(d):
    """(size, stride) of all dims but the channels."""
    return [(n, s) for axis, (n, s) in enumerate(zip(d.dims, d.strides)) if axis != 1]


def pixel_step(d) -> int | None:
    """Elements from a pixel to the next, through all images; 0 where there is one, None where distances
    differ."""
    return mma.joined(_outer(d), alone=0)
