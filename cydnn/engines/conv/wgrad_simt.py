"""Filter gradient on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ops import ConvWgrad
from .simt import W_ALONG_DEPTH, W_VECTORS, X_ALONG_DEPTH, X_VECTORS, Geometry, Lifted, depth_digits, quartets, refusals
from ..engine import Engine, powers
from ..matmul.tiles import TILES, tile_configs, tile_us, tiles_of, too_many
from ...steps import Launch

UNIT = 32                                        # pixels: the deepest step, so that splits begin at steps
FEWEST = 4 * UNIT                                # pixels worth a split of their own
PART_BYTES = 64 << 20                            # most workspace for the sums of the splits


@dataclass(frozen=True)
class Splitting:
    """How the pixels are cut: ``count`` parts of ``pixels`` each, and the tile. ``us`` is the estimate for all of it."""
    us: float
    tile: str
    count: int
    pixels: int


class ConvWgradSimt(Engine):
    """Implicit GEMM dw[k, crs] = dy[k, npq] @ im2col(x)[npq, crs]. The pixels are split; the parts are added in order, so equal in every run."""
    index = 149
    op = ConvWgrad

    def refuse(self, p, dev):
        yield from refusals(p, dev, "x")
        g = Geometry.of(p.op, p.x, p.dw, p.dy)
        yield from too_many("pixels of dy (n and spatial dims)", g.out_pixels)
        yield from too_many("elements of dw", p.dw.count)
        for name, image in (("x", g.x), ("dy", g.y)):
            reach = self._most_images(image)
            if reach < image.n and (reach - 1) * prod(g.y.size) < UNIT:
                yield f"the images of {name} behind {UNIT} pixels of dy must span less than 2^31 elements; got a stride of {image.n_step}"

    def cost(self, p, dev):
        return 2.0 + self._split(Geometry.of(p.op, p.x, p.dw, p.dy), dev, p.dw.dtype).us

    @staticmethod
    def _most_images(image: Lifted) -> int:
        """Images that offsets of 31 bits reach."""
        if image.n <= 1 or image.n_step == 0:
            return 2 ** 31
        return max((2 ** 31 - 1 - image.image_extent) // image.n_step + 1, 0)

    def _split(self, g: Geometry, dev, dtype, fixed_tile=None, fixed_splits=None) -> Splitting:
        rows, opq, pixels = g.c * g.taps, prod(g.y.size), g.out_pixels
        reach = min(self._most_images(g.x), self._most_images(g.y))
        most = max((reach - 1) * opq // UNIT * UNIT, UNIT) if reach < g.x.n else pixels     # a split may begin inside an image
        part_bytes = rows * g.k * g.groups * (8 if dtype.name == "f64" else 4)
        fits = max(PART_BYTES // part_bytes, 1)

        def wishes(tile):
            """As many splits as give each SM about 1, 2, 4 or 8 blocks; one where there are as many blocks anyway."""
            blocks = prod(tiles_of(tile, rows, g.k).values()) * g.groups
            return [min(max(dev.sms * waves // blocks, 1), max(pixels // FEWEST, 1), fits) for waves in (1, 2, 4, 8)]
        return min((self._splitting(g, dev, dtype, tile, wish, rows, pixels, most, part_bytes) for tile in ([fixed_tile] if fixed_tile else TILES)
                    for wish in ([min(fixed_splits, fits)] if fixed_splits else wishes(tile))), key=lambda s: s.us)

    @staticmethod
    def _splitting(g, dev, dtype, tile, wish, rows, pixels, most, part_bytes) -> Splitting:
        """The cut into about ``wish`` parts."""
        each = min(-(-max(pixels, 1) // (wish * UNIT)) * UNIT, max(most, UNIT))
        count = max(-(-pixels // each), 1)
        sums = 0.0 if count == 1 else 2.0 + count * part_bytes * 2 / (dev.bandwidth_gbs * 1e3)
        return Splitting(tile_us(tile, rows, g.k, each, g.groups * count, dev, dtype) + sums, tile, count, each)

    def configs(self, p, dev):
        pixels = p.dy.n * prod(p.dy.spatial)
        return [dict(config, splits=n) for config in tile_configs() for n in powers(-(-pixels // UNIT))]

    def plan(self, p, dev, tile=None, splits=None):
        if p.dw.count == 0:
            return []
        g = Geometry.of(p.op, p.x, p.dw, p.dy)
        split = self._split(g, dev, p.dw.dtype, tile, splits)
        inner = g.c > 1 and (g.x.c_step == 1 or g.w.c_step == 1)     # lanes run along rows where channels are neighbours
        digit = [n for n, _ in depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)[:3]]
        acc = 8 if p.dw.dtype.name == "f64" else 4
        parts = p.scratch(split.count * p.dw.count * acc) if split.count > 1 else None
        blend = dict(alpha=p.scalar("alpha"), beta=p.scalar("beta"))
        out = dict(dw=p.ptr("dw", g.w_start * p.dw.dtype.bytes), parts=parts, channel_inner=int(inner), digit=digit,
                   dw_k=g.w.n_step, dw_c=g.w.c_step, dw_s=g.w.steps, **blend)
        args = dict(x=p.ptr("x"), dy=p.ptr("dy"), rows=g.c * g.taps, filters=g.k, pixels=g.out_pixels,
                    split_pixels=split.pixels, groups=g.groups, flags=self._flags(p, g), out=[max(n, 1) for n in g.y.size], size=g.x.size,
                    stride=g.stride, pad=g.pad, dilation=g.dilation, x_n=g.x.n_step, x_group=g.c * g.x.c_step, x_c=g.x.c_step, x_s=g.x.steps,
                    dy_n=g.y.n_step, dy_k=g.y.c_step, dy_s=g.y.steps, **out)
        steps = [Launch(f"conv_wgrad_simt_{p.dw.dtype}_{split.tile}", args, dict(tiles_of(split.tile, g.c * g.taps, g.k), splits=split.count))]
        if parts is not None:
            steps.append(Launch(f"conv_wgrad_simt_sum_{p.dw.dtype}",
                                dict(out, count=p.dw.count, splits=split.count, rows=g.c * g.taps)))
        return steps

    @staticmethod
    def _flags(p, g) -> int:
        flags = 0
        walks = g.taps == 1 and set(g.stride) == {1} and not any(g.pad) and g.x.size == g.y.size      # pixel i of dy is pixel i of x
        if g.c * g.taps == 1 or g.x.closest_pixel() <= max(g.x.c_step, 1):
            flags |= X_ALONG_DEPTH
        if walks and flags & X_ALONG_DEPTH and quartets(p.x, g.x.pixels, (g.x.c_step,)):
            flags |= X_VECTORS
        if g.k == 1 or g.y.closest_pixel() <= max(g.y.c_step, 1):
            flags |= W_ALONG_DEPTH
        if flags & W_ALONG_DEPTH and quartets(p.dy, g.y.pixels, (g.y.c_step,)):
            flags |= W_VECTORS
        return flags
