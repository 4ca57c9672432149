"""Gradient of a convolution with respect to its filter on tensor cores (mma.sync), NHWC."""
from __future__ import annotations

from functools import lru_cache

from ...ops import ConvWgrad
from . import mma
from ..engine import Engine, memory_us, powers
from ...steps import Launch

MOST_BYTES = 256 << 20                           # of partial sums in the workspace


def most_splits(g: mma.Geometry) -> int:
    """By pixels, by room for their sums, by the grid."""
    return max(1, min(mma.ceil_div(g.pixels, 64), MOST_BYTES // (g.k * g.groups * g.chunks * mma.CHUNK * 4), 65535))


@lru_cache(maxsize=4096)
def best_split(dev, g: mma.Geometry, fixed_tile=None, fixed_splits=None):
    """The tile, the pixels of a split, the number of splits, and the microseconds of both kernels."""
    steps, columns = mma.ceil_div(g.pixels, 64), g.chunks * mma.CHUNK
    sums_bytes = g.k * g.groups * columns * 4
    most = most_splits(g)
    best = None
    for tile in mma.tiles_for(dev):
        if fixed_tile not in (None, str(tile)):
            continue
        tiles = mma.ceil_div(g.k, tile.m) * mma.ceil_div(columns, tile.n) * g.groups
        for wanted in [fixed_splits] if fixed_splits else range(1, min(most, max(8 * dev.sms // tiles, 1)) + 1):
            each = mma.ceil_div(steps, min(wanted, most))
            splits = mma.ceil_div(steps, each)
            rate = dev.bandwidth_gbs * (1.4 if splits * sums_bytes < dev.l2_bytes // 2 else 0.7)     # the sums are read from L2 (H200)
            us = mma.tile_us(tile, dev, tiles * splits, each) + 2 * splits * sums_bytes / rate * 1e-3
            if best is None or us < best[-1]:
                best = tile, 64 * each, splits, us
    return best


class ConvWgradMma(Engine):
    """dw[k, trsc] = dy[npq, k]^T @ im2col(x)[npq, trsc]; ranges of pixels in parallel, their sums added in order."""
    index = 150
    op = ConvWgrad
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        yield from mma.refusals(p, dev, p.x, p.dw, p.dy, names=("x", "dw", "dy"))
        yield from self.refuse_layout(p)
        g = mma.Geometry.of(p.op, p.x, p.dw, p.dy)
        if g.k * g.groups * g.chunks * mma.CHUNK >= 2 ** 31:
            yield f"dw must have fewer than 2^31 elements; got {g.k * g.groups * g.chunks * mma.CHUNK}"

    def refuse_layout(self, p):
        yield from mma.not_nhwc("x", p.x)
        yield from mma.not_nhwc("dy", p.dy)

    def cost(self, p, dev):
        us = best_split(dev, mma.Geometry.of(p.op, p.x, p.dw, p.dy))[-1]
        return mma.copies_us(dev, p.x, p.dy) + max(memory_us(p, dev), 4.0 + us)

    def configs(self, p, dev):
        most = most_splits(mma.Geometry.of(p.op, p.x, p.dw, p.dy))
        return [dict(config, splits=n) for config in mma.tile_configs(dev) for n in powers(most)]

    def plan(self, p, dev, tile=None, splits=None):
        g, steps = mma.Geometry.of(p.op, p.x, p.dw, p.dy), []
        x, dy = mma.packed_operand(p, "x", steps), mma.packed_operand(p, "dy", steps)
        tile, pixels, splits, _ = best_split(dev, g, tile, splits)
        columns = g.chunks * mma.CHUNK
        sums = p.scratch(splits * g.k * g.groups * columns * 4)
        steps.append(Launch(f"conv_wgrad_mma_{tile}_{p.x.dtype}", dict(
            x=x, dy=dy, sums=sums, pixels=g.pixels, range=pixels, k=g.k, chunks=g.chunks, pixel_chunks=mma.padded(p.x.c) // mma.CHUNK,
            dy_chunks=mma.padded(p.dy.c) // mma.CHUNK, n_tiles=mma.ceil_div(columns, tile.n), tap_chunks=mma.padded(g.c) // mma.CHUNK,
            splits=splits, groups=g.groups, **g.window())))
        steps.append(Launch(f"conv_wgrad_mma_sum_{p.dw.dtype}", dict(
            sums=sums, dw=p.ptr("dw"), alpha=p.scalar("alpha"), beta=p.scalar("beta"), vectors=g.k * g.groups * columns // 4, splits=splits,
            cols=columns, tap_channels=mma.padded(g.c), channels=g.c, taps=g.taps,
            strides=[*p.dw.strides[:2], *(0,) * (5 - p.dw.rank), *p.dw.strides[2:]])))
        return steps


class ConvWgradMmaRepack(ConvWgradMma):
    """ConvWgradMma for NCHW and other layouts with dense pixels: x and dy are copied to NHWC first."""
    index = 151

    def refuse_layout(self, p):
        if p.x.is_packed("nhwc") and p.dy.is_packed("nhwc"):
            yield "x and dy are packed NHWC; conv_wgrad_mma takes them without a copy"
        yield from mma.no_pixel_stride("x", p.x)
        yield from mma.no_pixel_stride("dy", p.dy)
