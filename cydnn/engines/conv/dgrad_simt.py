"""Data gradient on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from math import gcd, prod

from ...ops import ConvDgrad
from .simt import (OUT_ALONG_ROWS, W_ALONG_DEPTH, W_VECTORS, X_ALONG_DEPTH, X_VECTORS, Geometry, closest, depth_digits, pixels_of, quartets,
                        refusals)
from ..engine import Engine
from ..matmul.tiles import best_tile, tile_configs, tiles_of, too_many
from ...steps import Launch


class ConvDgradSimt(Engine):
    """Gather form: each pixel of dx sums over the taps that hit it; pixels equal modulo the stride meet the same taps, so no tap is skipped.

    A tap that falls outside dy counts as 0 * w, so an infinite or NaN filter reaches border pixels that the definition leaves alone.
    """
    index = 129
    op = ConvDgrad

    def refuse(self, p, dev):
        yield from refusals(p, dev, "dy")
        yield from too_many("pixels of dx (n and spatial dims)", pixels_of(p.dx))
        if p.w.extent >= 2 ** 31:
            yield f"w must span less than 2^31 elements; got {p.w.extent}"
        yield from too_many("k / groups * taps of w", p.w.count // max(p.w.c, 1))

    def cost(self, p, dev):
        g = Geometry.of(p.op, p.dx, p.w, p.dy)
        return 2.0 + self._tile(p, g, dev)[0]

    @staticmethod
    def _tile(p, g, dev):
        """Every class has about 1/classes of the pixels and of the taps."""
        classes = prod(map(min, g.stride, g.x.size))
        rows = -(-g.x.n * prod(g.x.size) // classes)
        return best_tile(rows, g.c, max(g.k * g.taps // classes, 1), g.groups * classes, dev, p.dx.dtype)

    def configs(self, p, dev):
        return tile_configs()

    def plan(self, p, dev, tile=None):
        if p.dx.count == 0:
            return []
        g = Geometry.of(p.op, p.dx, p.w, p.dy)
        inner, flags = self._order(p, g)
        common = tuple(map(gcd, g.stride, g.dilation))
        classes = tuple(map(min, g.stride, g.x.size))
        largest = g.x.n * prod(-(-n // s) for n, s in zip(g.x.size, g.stride))
        tile = tile or self._tile(p, g, dev)[1]
        args = dict(dy=p.ptr("dy"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), dx=p.ptr("dx"), alpha=p.scalar("alpha"), beta=p.scalar("beta"),
                    images=g.x.n, channels=g.c, filters=g.k, flags=flags, channel_inner=int(inner), **tiles_of(tile, largest, g.c),
                    classes=classes, size=g.x.size, dy_size=g.y.size, taps=g.w.size, stride=g.stride, pad=g.pad, dilation=g.dilation,
                    tap_step=[s // c for s, c in zip(g.stride, common)], z_step=[d // c for d, c in zip(g.dilation, common)],
                    dy_n=g.y.n_step, dy_group=g.k * g.y.c_step, dy_k=g.y.c_step, dy_s=g.y.steps,
                    w_c=g.w.c_step, w_group=g.k * g.w.n_step, w_k=g.w.n_step, w_s=g.w.steps,
                    dx_n=g.x.n_step, dx_c=g.x.c_step, dx_s=g.x.steps)
        return [Launch(f"conv_dgrad_simt_{p.dx.dtype}_{tile}", args, dict(groups=g.groups))]

    @staticmethod
    def _order(p, g) -> tuple[bool, int]:
        """Whether filters run faster than taps, and the flags."""
        inner = g.k > 1 and (g.y.c_step == 1 and g.k >= 4 or g.w.n_step == 1)
        w_digits = depth_digits((g.k, g.w.n_step), zip(g.w.size, g.w.steps), inner)
        flags = 0
        if inner and g.y.c_step == 1:
            flags |= X_ALONG_DEPTH
            if g.k % 4 == 0 and quartets(p.dy, [(g.k, 1)], (g.y.n_step, *g.y.steps)):
                flags |= X_VECTORS
        if g.c == 1 or closest(w_digits) <= g.w.c_step:
            flags |= W_ALONG_DEPTH
        if set(g.stride) == {1} and quartets(p.w, w_digits, (g.w.c_step, g.w_start, g.k * g.w.n_step * (g.groups > 1))):
            flags |= W_VECTORS
        if g.c == 1 or g.x.closest_pixel() < g.x.c_step:
            flags |= OUT_ALONG_ROWS
        return inner, flags
