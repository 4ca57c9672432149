"""Gradient of a convolution with respect to its input on tensor cores (mma.sync), NHWC, any stride."""
from __future__ import annotations

from math import prod

from ...ops import ConvDgrad
from . import mma
from ..engine import Engine, memory_us
from ...steps import Launch


def class_rows(g: mma.Geometry) -> int:
    """Pixels of the largest class of dx: one residue modulo the stride in each dim."""
    return g.n * prod(mma.ceil_div(i, s) for i, s in zip(g.size, g.stride))


def gemm(g: mma.Geometry, dev):
    """The tile and its microseconds; the classes share out the taps, so their mean counts."""
    classes = prod(g.stride)
    return mma.best_tile(dev, class_rows(g), g.c, prod(g.taps) / classes * mma.ceil_div(g.k, 64), g.groups * classes)


def launch(p, g: mma.Geometry, tile, dy, w, dx, *, beta, store=None) -> Launch:
    """The gradient from packed operands. A flipped filter is one that is walked backwards from its last tap."""
    tap = mma.padded(g.c) // mma.CHUNK
    w_tap = [tap * g.taps[1] * g.taps[2], tap * g.taps[2], tap]
    last = sum(step * (r - 1) for step, r in zip(w_tap, g.taps))
    rows = class_rows(g)
    args = dict(dy=dy, w=w, dx=dx, alpha=p.scalar("alpha"), beta=beta, images=g.n, rows=rows, cols=g.c, k=g.k,
                dy_chunks=mma.padded(g.k * g.groups) // mma.CHUNK, w_chunks=g.chunks, w_first=last if g.is_flipped else 0,
                channels=g.c * g.groups, n_tiles=mma.ceil_div(g.c, tile.n), m_tiles=mma.ceil_div(rows, tile.m), stride=g.stride,
                wrap=[-a % s for a, s in zip(g.pad, g.stride)], up=[mma.ceil_div(a, s) for a, s in zip(g.pad, g.stride)],
                out=[max(i // s, 1) for i, s in zip(g.size, g.stride)] + [mma.ceil_div(i, s) for i, s in zip(g.size, g.stride)],
                dx_size=g.size, size=g.out, taps=g.taps, dilation=g.dilation, w_tap=[-step for step in w_tap] if g.is_flipped else w_tap,
                classes=prod(g.stride), groups=g.groups)
    return Launch(f"conv_dgrad_mma_{tile}_{p.dy.dtype}_{store or p.dy.dtype}", args)


class ConvDgradMma(Engine):
    """dx by parity classes: the pixels of one residue modulo the stride see a part of the taps, as a stride-1 correlation of dy."""
    index = 130
    op = ConvDgrad
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.dx, p.w, p.dy, names=("dx", "w", "dy"))
        yield from mma.stride_shares_factor(mma.Geometry.of(p.op, p.dx, p.w, p.dy))
        yield from mma.not_nhwc("dy", p.dy)
        yield from mma.no_pixel_stride("w", p.w)
        yield from mma.not_nhwc("dx", p.dx)

    def cost(self, p, dev):
        g = mma.Geometry.of(p.op, p.dx, p.w, p.dy)
        return mma.copies_us(dev, p.dy, p.w) + max(memory_us(p, dev), 2.0 + gemm(g, dev)[1])

    def configs(self, p, dev):
        return mma.tile_configs(dev)

    def plan(self, p, dev, tile=None):
        g, steps = mma.Geometry.of(p.op, p.dx, p.w, p.dy), []
        dy, w = mma.packed_operand(p, "dy", steps), mma.packed_operand(p, "w", steps)
        tile = mma.named(tile) if tile else gemm(g, dev)[0]
        return [*steps, launch(p, g, tile, dy, w, p.ptr("dx"), beta=p.scalar("beta"))]
