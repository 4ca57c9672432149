"""Filter gradients on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ... import fusion
from ...dtypes import BY_NAME
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, powers
from ..tile.matrices import too_many
from ..tile.simt import ASYNC, TILES, arithmetic_us, has_async, tile_us, tiles_of
from ..tile.split_k import PART_BYTES, sums_us
from . import atomic_sums
from .simt import MOST
from .view import (W_ALONG_DEPTH, W_ROW_VECTORS, W_VECTORS, X_ALONG_DEPTH, X_ROW_VECTORS, X_VECTORS, Lifted,
                   behind_filter, depth_digits, geometry, quartets, refusals)

UNIT = 32                                        # pixels: the deepest step, so that splits begin at steps
GATHERS = 1.22                                   # time of a sum over that of a product of matrices
FEWEST = 4 * UNIT                                # pixels worth a split of their own


@dataclass(frozen=True)
class Splitting:
    """Split-K over pixels: ``count`` parts of ``pixels`` each, and the tile.
    ``us`` is the estimate for all of it."""
    us: float
    tile: str
    count: int
    pixels: int


class ConvWgradSimt(Engine):
    """Implicit GEMM dw[k, crs] = dy[k, npq] @ im2col(x)[npq, crs]. The pixels are split;
    the parts are added in order, so equal in every run."""
    index = 149
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    knobs = (Knob("tile", (*TILES, "a128x256", "a128x128")), Knob("splits", lo=1, hi=2 ** 20))
    source, form = "conv/conv_wgrad_simt.cu", "ordered"

    def refuse(self, p, dev):
        yield from refusals(p, dev, self.source)
        g = self._geometry(p)
        yield from too_many("pixels of dy (n and spatial dims)", g.out_pixels)
        yield from too_many("elements of dw", p.dw.count)
        span = 1 + sum((n - 1) * step for n, step in zip(g.y.size, g.y.steps))
        if span >= 2 ** 31:
            yield f"the pixels of one image of dy must span less than 2^31 elements; got {span}"
        for name, image in (("x", g.x), ("dy", g.y)):
            reach = self._most_images(image)
            if reach < image.n and (reach - 1) * prod(g.y.size) < UNIT:
                yield (f"the images of {name} behind {UNIT} pixels of dy must span less than 2^31 elements; "
                       f"got a stride of {image.n_step}")
        yield from fusion.reasons(self._fused(p))

    @staticmethod
    def _fused(p):
        is_inner = ConvWgradSimt._is_inner(ConvWgradSimt._geometry(p))
        return behind_filter(p, (p.x.dtype.name,), channel_inner=is_inner, mark_type=p.x.dtype.compute)

    @staticmethod
    def _geometry(p):
        return geometry(p, p.lead(p.x.dtype.name))

    @staticmethod
    def _is_inner(g) -> bool:
        """Lanes run along rows where channels are neighbours."""
        return g.c > 1 and (g.x.c_step == 1 or g.w.c_step == 1)

    @staticmethod
    def _most_images(image: Lifted) -> int:
        """Images that offsets of 31 bits reach."""
        if image.n <= 1 or image.n_step == 0:
            return 2 ** 31
        return max((2 ** 31 - 1 - image.image_extent) // image.n_step + 1, 0)

    def _splitting(self, p, dev, tile, wish) -> Splitting:
        """The cut into about ``wish`` parts."""
        g = self._geometry(p)
        pixels, opq = g.out_pixels, prod(g.y.size)
        reach = min(self._most_images(g.x), self._most_images(g.y))
        most = pixels
        if reach < g.x.n:                        # one image fewer: a part may begin inside an image
            most = max((reach - 1) * opq // UNIT * UNIT, UNIT)
        each = min(ceil_div(max(pixels, 1), wish * UNIT) * UNIT, max(most, UNIT))
        count = max(ceil_div(pixels, each), 1)
        us = tile_us(tile, g.c * g.taps, g.k, each, g.groups * count, dev, p.x.dtype.compute)
        return Splitting(GATHERS * us + self._adding_us(p, dev, count), tile, count, each)

    def _adding_us(self, p, dev, count) -> float:
        """What it costs to add so many parts."""
        is_summed = count > 1 or self._fused(p) is not None
        return sums_us(count * self._part_bytes(p), count, dev) if is_summed else 0.0

    def _most_splits(self, p) -> int:
        return max(PART_BYTES // max(self._part_bytes(p), 1), 1)

    @staticmethod
    def _part_bytes(p) -> int:
        return p.dw.count * BY_NAME[p.x.dtype.compute].bytes

    def configs(self, p, dev):
        """Splits that give each SM about 1, 2, 4 or 8 blocks,
        and one where there are as many blocks anyway."""
        g = self._geometry(p)
        rows, pixels, fits = g.c * g.taps, g.out_pixels, self._most_splits(p)
        found, tiles = [], self._tiles(p, dev)
        for tile in tiles:
            blocks = max(prod(tiles_of(tile, rows, g.k).values()) * g.groups, 1)
            for waves in (1, 2, 4, 8):
                wish = min(max(dev.sms * waves // blocks, 1), max(pixels // FEWEST, 1), fits)
                found.append(self._splitting(p, dev, tile, wish))
        best = min(found, key=lambda s: s.us)
        splits = [n for n in powers(ceil_div(pixels, UNIT)) if n <= fits]
        others = (Config(tile=t, splits=n) for t in tiles for n in splits)
        return first_then(Config(tile=best.tile, splits=best.count), others)

    def _tiles(self, p, dev) -> tuple:
        """Those that copy past the registers want lanes along the rows of both operands."""
        found = self.knobs[0].values
        is_along = self._flags(p, self._geometry(p)) & (X_ALONG_DEPTH | W_ALONG_DEPTH)
        return found if has_async(p.x, dev) and not is_along else tuple(t for t in found if t not in ASYNC)

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        return dev.launch_us + self._splitting(p, dev, config.tile, config.splits).us

    def plan(self, p, dev, config):
        lead, g = p.lead(p.x.dtype.name), self._geometry(p)
        if lead.tensor.count == 0:
            return []
        split, inner, digit = self._splitting(p, dev, config.tile, config.splits), *self._digits(g)
        fused = self._fused(p)                   # the kernel that adds the parts has the mark
        parts = p.scratch(split.count * self._part_bytes(p)) if split.count > 1 or fused is not None else None
        store = lead.store(p)
        if lead.is_native:
            store["dw"] += g.w_start * lead.tensor.dtype.bytes
        out = dict(**store, parts=parts, channel_inner=int(inner), digit=digit, alpha=p.scalar("alpha"),
                   dw_k=g.w.n_step, dw_c=g.w.c_step, dw_s=g.w.steps)
        product = self._product(p, g, split, out)
        if parts is None:
            return [product]
        total = dict(out, count=p.dw.count, splits=split.count, rows=g.c * g.taps)
        return [product,
                Launch(f"conv_wgrad_simt_sum_{p.x.dtype}", total, {}, fusion.at("epilogue", fused))]

    @staticmethod
    def _digits(g) -> tuple:
        """Whether channels run faster than taps in a row's index, and the three fastest digits."""
        inner = ConvWgradSimt._is_inner(g)
        return inner, [n for n, _ in depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)[:3]]

    def _product(self, p, g, split, out, index=None) -> Launch:
        """The launch that multiplies; ``out``: what it is told of dw and of the rows."""
        args = dict(x=p.ptr("x"), dy=p.ptr("dy"), rows=g.c * g.taps, filters=g.k, pixels=g.out_pixels,
                    split_pixels=split.pixels, groups=g.groups, flags=self._flags(p, g),
                    out=[max(n, 1) for n in g.y.size], size=g.x.size, stride=g.stride, pad=g.pad,
                    dilation=g.dilation, x_n=g.x.n_step, x_group=g.c * g.x.c_step, x_c=g.x.c_step,
                    x_s=g.x.steps, dy_n=g.y.n_step, dy_k=g.y.c_step, dy_s=g.y.steps, index=index)
        extra = dict(tiles_of(split.tile, g.c * g.taps, g.k), splits=split.count)
        return Launch(f"conv_wgrad_simt_{p.x.dtype}_{split.tile}_{self.form}", args | out, extra)

    @staticmethod
    def _flags(p, g) -> int:
        flags = 0
        is_plain = g.taps == 1 and set(g.stride) == {1} and not any(g.pad)
        walks = is_plain and g.x.size == g.y.size                           # pixel i of dy meets pixel i of x
        if g.c * g.taps == 1 or g.x.closest_pixel() <= max(g.x.c_step, 1):
            flags |= X_ALONG_DEPTH
        if walks and flags & X_ALONG_DEPTH and quartets(p.x, g.x.pixels, (g.x.c_step,)):
            flags |= X_VECTORS
        if g.k == 1 or g.y.closest_pixel() <= max(g.y.c_step, 1):
            flags |= W_ALONG_DEPTH
        if flags & W_ALONG_DEPTH and quartets(p.dy, g.y.pixels, (g.y.c_step,)):
            flags |= W_VECTORS
        in_rows = lambda tensor, size, lifted: quartets(tensor, [(size, lifted.c_step)],
                                                        (lifted.n_step, *lifted.steps))
        if not flags & X_ALONG_DEPTH and ConvWgradSimt._is_inner(g) and in_rows(p.x, g.c, g.x):
            flags |= X_ROW_VECTORS
        if not flags & W_ALONG_DEPTH and in_rows(p.dy, g.k, g.y):
            flags |= W_ROW_VECTORS
        return flags


class ConvWgradAtomic(ConvWgradSimt):
    """ConvWgradSimt with atomic sums: every block adds its own to dw as it finishes, no part lies in the
    workspace (16-bit dw: one f32 image of it does), and the order of the additions differs from run to
    run."""
    index = 154
    takes = core(ConvWgrad)
    v5 = ("ALGO_0",)
    knobs = (Knob("tile", tuple(t for t in TILES if t != "t128x64")), Knob("splits", lo=1, hi=2 ** 20))
    notes = only_for = atomic_sums.NOTES
    form = "atomic"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from atomic_sums.refusals(p, "dw", p.x.dtype.compute)

    def _adding_us(self, p, dev, count) -> float:
        return atomic_sums.adding_us(p, "dw", p.x.dtype.compute, count * p.dw.count, dev)

    def _most_splits(self, p) -> int:
        return 2 ** 20

    def plan(self, p, dev, config):
        if p.dw.count == 0:
            return []
        g, split = self._geometry(p), self._splitting(p, dev, config.tile, config.splits)
        sums, (inner, digit) = atomic_sums.AtomicSums.into(p, "dw", p.x.dtype.compute), self._digits(g)
        start, filters = 0, Lifted.of(sums.desc)
        if p.op.mode == "convolution":
            start, filters = filters.flipped()
        out = dict(dw=None, beta=0.0, parts=sums.pointer + start * sums.desc.dtype.bytes, alpha=sums.alpha,
                   channel_inner=int(inner), digit=digit, dw_k=filters.n_step, dw_c=filters.c_step,
                   dw_s=filters.steps)
        return [*sums.front, *self._steps(p, g, split, out), *sums.behind]

    def _steps(self, p, g, split, out) -> list:
        return [self._product(p, g, split, out)]


class ConvWgradIndexed(ConvWgradAtomic):
    """ConvWgradAtomic with the offsets of an image's pixels computed once, into a table in the workspace."""
    index = 155
    v5 = ("ALGO_3",)
    form = "indexed"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("pixels of an image of dy", prod(p.dy.spatial), MOST)

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def _steps(self, p, g, split, out) -> list:
        pixels = prod(g.y.size)
        index = p.scratch(20 * pixels)
        table = Launch("conv_wgrad_index", dict(to=index, pixels=pixels, out=g.y.size, stride=g.stride,
                                                pad=g.pad, x_s=g.x.steps, dy_s=g.y.steps))
        return [table, self._product(p, g, split, out | dict(out=(1, 1, pixels)), index)]
