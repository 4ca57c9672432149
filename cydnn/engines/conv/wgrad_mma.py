"""Filter gradient on tensor cores (mma.sync): split-K over ranges of pixels, sums in a fixed order."""
from __future__ import annotations

from functools import lru_cache
from math import prod

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, memory_us, powers
from ..tile import split_k
from . import mma
from .view import behind_filter

MOST_BYTES = 256 << 20                           # of partial sums in the workspace
PRODUCT, START_US = 1.5, 4.5                     # what a product takes of what its tiles say, and beside it
STORES = ("f16", "bf16", "f32")                  # of conv_wgrad_mma_sum


def most_splits(g: mma.MmaGeometry) -> int:
    """By pixels, by room for their sums, by the grid."""
    room = MOST_BYTES // (g.k * g.groups * g.chunks * mma.CHUNK * 4)
    return max(1, min(ceil_div(g.pixels, mma.LINE.elements), room, 65535))


def cut_us(dev, g: mma.MmaGeometry, tile: mma.MmaTile, wanted: int) -> tuple:
    """(microseconds of both kernels, number of splits, pixels of a split)."""
    steps, columns = ceil_div(g.pixels, mma.LINE.elements), g.chunks * mma.CHUNK
    each = ceil_div(steps, min(wanted, most_splits(g)))
    splits, sums_bytes = ceil_div(steps, each), g.k * g.groups * columns * 4
    tiles = ceil_div(g.k, tile.m) * ceil_div(columns, tile.n) * g.groups
    fits_l2 = splits * sums_bytes < dev.l2_bytes // 2                       # the sums are read from there
    rate = dev.bandwidth_gbs * (1.4 if fits_l2 else 0.7)
    product = PRODUCT * mma.tile_us(tile, dev, tiles * splits, each) + START_US
    us = product + 2 * splits * sums_bytes / rate * 1e-3 + split_k.SPLIT_US * splits
    return us, splits, mma.LINE.elements * each


@lru_cache(maxsize=4096)
def best(dev, g: mma.MmaGeometry) -> Config:
    """The fastest tile and number of splits."""
    found = None
    for tile in mma.tiles_for(dev):
        tiles = ceil_div(g.k, tile.m) * ceil_div(g.chunks * mma.CHUNK, tile.n) * g.groups
        for wanted in range(1, min(most_splits(g), max(8 * dev.sms // tiles, 1)) + 1):
            us, splits, _ = cut_us(dev, g, tile, wanted)
            if found is None or us < found[0]:
                found = us, tile, splits
    return Config(tile=str(found[1]), splits=found[2])


def ordered_sum(p, lead, fused, sums, splits: int, tap_channels: int) -> Launch:
    """Of the sums [split][k][t][r][s][c], c padded to ``tap_channels``."""
    g, out = mma.geometry(p), lead.tensor
    columns = prod(g.taps) * tap_channels
    return Launch(f"conv_wgrad_mma_sum_{mma.stored_type(p, lead)}", dict(
        sums=sums, **lead.store(p), alpha=p.scalar("alpha"), vectors=g.k * g.groups * columns // 4,
        splits=splits, cols=columns, tap_channels=tap_channels, channels=g.c, taps=g.taps,
        strides=[*out.strides[:2], *(0,) * (5 - out.rank), *out.strides[2:]],
    ), {}, fusion.at("epilogue", fused))


class WgradMma(Engine):
    """The base: what both forms do once x and dy are packed."""
    knobs = (mma.FILTER_KNOB, Knob("splits", lo=1, hi=65535))
    notes = ("tensor_core", "deterministic")

    def refuse(self, p, dev):
        lead, fused = self._tail(p)
        yield from mma.refusals(p, dev, lead)
        yield from self.refuse_layout(p)
        g = mma.geometry(p)
        if g.k * g.groups * g.chunks * mma.CHUNK >= 2 ** 31:
            yield f"dw must have fewer than 2^31 elements; got {g.k * g.groups * g.chunks * mma.CHUNK}"
        yield from fusion.reasons(fused)

    def refuse_layout(self, p):
        raise NotImplementedError

    @staticmethod
    def _tail(p):
        """(lead, what is spliced into the sum)."""
        return p.lead(*STORES), behind_filter(p, STORES, channel_inner=True)

    def configs(self, p, dev):
        g = mma.geometry(p)
        others = (Config(tile=str(t), splits=n) for t in mma.tiles_for(dev) for n in powers(most_splits(g)))
        return first_then(best(dev, g), others)

    def cost(self, p, dev, config):
        g = mma.geometry(p)
        us, _, _ = cut_us(dev, g, mma.BY_NAMES[config.tile], config.splits)
        return mma.copies_us(p, dev, "x", "dy") + max(memory_us(p, dev), 2 * dev.launch_us + us)

    def plan(self, p, dev, config):
        g, steps, (lead, fused) = mma.geometry(p), [], self._tail(p)
        x, dy = mma.packed_operand(p, "x", steps), mma.packed_operand(p, "dy", steps)
        tile = mma.BY_NAMES[config.tile]
        _, splits, pixels = cut_us(dev, g, tile, config.splits)
        columns = g.chunks * mma.CHUNK
        sums = p.scratch(splits * g.k * g.groups * columns * 4)
        steps.append(Launch(f"conv_wgrad_mma_{tile}_{mma.common_type(p)}", dict(
            x=x, dy=dy, sums=sums, pixels=g.pixels, range=pixels, k=g.k, chunks=g.chunks,
            pixel_chunks=mma.padded(p.x.c) // mma.CHUNK, dy_chunks=mma.padded(p.dy.c) // mma.CHUNK,
            n_tiles=ceil_div(columns, tile.n), tap_chunks=mma.padded(g.c) // mma.CHUNK, splits=splits,
            groups=g.groups, **g.window())))
        return steps + [ordered_sum(p, lead, fused, sums, splits, mma.padded(g.c))]


class ConvWgradMma(WgradMma):
    """dw[k, trsc] = dy[npq, k]^T @ im2col(x)[npq, trsc]; ranges of pixels in parallel,
    their sums added in order; pointwise nodes are fused into the sum."""
    index = 150
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)

    def refuse_layout(self, p):
        yield from mma.not_nhwc("x", p.x)
        yield from mma.not_nhwc("dy", p.dy)


class ConvWgradMmaRepack(WgradMma):
    """ConvWgradMma for NCHW and other layouts with dense pixels: x and dy are copied to NHWC first."""
    index = 151
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)

    def refuse_layout(self, p):
        if p.x.is_packed("nhwc") and p.dy.is_packed("nhwc"):
            yield "x and dy are packed NHWC; conv_wgrad_mma takes them without a copy"
        yield from mma.no_pixel_stride("x", p.x)
        yield from mma.no_pixel_stride("dy", p.dy)
