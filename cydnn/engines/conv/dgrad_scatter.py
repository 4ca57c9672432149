"""Data gradient on CUDA cores that scatters: each pixel of dy adds to the pixels of dx that it came from."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvDgrad
from ...steps import Launch
from ..engine import Engine, Knob
from ..tile.matrices import too_many
from ..tile.simt import TILES, arithmetic_us, by_time, tile_us, tiles_of
from . import atomic_sums
from .view import (OUT_ALONG_ROWS, W_ALONG_DEPTH, W_VECTORS, X_ALONG_DEPTH, X_VECTORS, Lifted, closest,
                   depth_digits, pixels_of, plain_geometry, quartets, refusals)


class ConvDgradScatter(Engine):
    """The matrix product dy[npq, k] @ w[k, crs], each of whose elements is added atomically to a pixel of dx
    (16-bit dx: of an f32 image of it); the order of the additions differs from run to run."""
    index = 136
    takes = core(ConvDgrad)
    v5 = ("ALGO_0",)
    knobs = (Knob("tile", tuple(t for t in TILES if t != "t128x64")),)
    notes = only_for = atomic_sums.NOTES

    def refuse(self, p, dev):
        yield from refusals(p, dev, "conv/conv_dgrad_scatter.cu")
        yield from too_many("pixels of dy (n and spatial dims)", pixels_of(p.dy))
        yield from too_many("c / groups * taps of w", p.w.count // max(p.w.n, 1))
        if p.w.extent >= 2 ** 31:
            yield f"w must span less than 2^31 elements; got {p.w.extent}"
        yield from atomic_sums.refusals(p, "dx", p.dy.dtype.compute)

    geometry = staticmethod(plain_geometry)

    def product(self, p):
        g = self.geometry(p)
        return g.out_pixels, g.c * g.taps, g.k, g.groups

    def configs(self, p, dev):
        return iter(by_time(self.knobs[0].values, *self.product(p), dev, p.dy.dtype.compute))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        rows, columns, _, groups = self.product(p)
        adding = atomic_sums.adding_us(p, "dx", p.dy.dtype.compute, rows * columns * groups, dev)
        return dev.launch_us + adding + tile_us(config.tile, *self.product(p), dev, p.dy.dtype.compute)

    def plan(self, p, dev, config):
        if p.dx.count == 0:
            return []
        g, sums = self.geometry(p), atomic_sums.AtomicSums.into(p, "dx", p.dy.dtype.compute)
        image, (inner, flags) = Lifted.of(sums.desc), self._order(p, g)
        digits = depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)
        args = dict(dy=p.ptr("dy"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), sums=sums.pointer,
                    alpha=sums.alpha, pixels=g.out_pixels, columns=g.c * g.taps, filters=g.k,
                    groups=g.groups, flags=flags, channel_inner=int(inner), out=g.y.size,
                    digit=[n for n, _ in digits[:3]], size=g.x.size, stride=g.stride, pad=g.pad,
                    dilation=g.dilation, dy_n=g.y.n_step, dy_group=g.k * g.y.c_step, dy_k=g.y.c_step,
                    dy_s=g.y.steps, w_group=g.k * g.w.n_step, w_k=g.w.n_step, w_c=g.w.c_step, w_s=g.w.steps,
                    dx_n=image.n_step, dx_group=g.c * image.c_step, dx_c=image.c_step, dx_s=image.steps)
        kernel = f"conv_dgrad_scatter_{p.dy.dtype}_{config.tile}"
        product = Launch(kernel, args, tiles_of(config.tile, g.out_pixels, g.c * g.taps))
        return [*sums.front, product, *sums.behind]

    @staticmethod
    def _order(p, g) -> tuple[bool, int]:
        """Whether channels run faster than taps in a column's index, and the flags."""
        inner, flags = g.c > 1 and g.x.c_step == 1, 0
        if g.k == 1 or g.y.c_step <= g.y.closest_pixel():
            flags |= X_ALONG_DEPTH
            if quartets(p.dy, [(g.k, g.y.c_step)], (g.y.n_step, *g.y.steps)):
                flags |= X_VECTORS
        columns = depth_digits((g.c, g.w.c_step), zip(g.w.size, g.w.steps), inner)
        if g.k == 1 or g.w.n_step <= closest(columns):
            flags |= W_ALONG_DEPTH
            if quartets(p.w, [(g.k, g.w.n_step)], (g.w_start, *(s for _, s in columns))):
                flags |= W_VECTORS
        if g.c * g.taps == 1 or g.x.closest_pixel() < max(g.x.c_step, 1):
            flags |= OUT_ALONG_ROWS
        return inner, flags
