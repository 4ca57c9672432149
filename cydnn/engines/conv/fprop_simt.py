"""Convolution on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from ...ops import ConvFprop
from .simt import (OUT_ALONG_ROWS, W_ALONG_DEPTH, W_VECTORS, X_ALONG_DEPTH, X_VECTORS, Geometry, closest, depth_digits, pixels_of, quartets,
                        refusals)
from ..engine import Engine
from ..matmul.tiles import best_tile, fuse, tile_configs, tiles_of, too_many
from ...steps import Launch


class ConvFpropSimt(Engine):
    """Implicit GEMM: y[npq, k] = im2col(x)[npq, crs] @ w[crs, k], the im2col done by index arithmetic. Sums in f32 (f64 for f64)."""
    index = 109
    op = ConvFprop
    fuses_epilogue = True

    def refuse(self, p, dev):
        yield from refusals(p, dev, "x")
        yield from too_many("pixels of y (n and spatial dims)", pixels_of(p.y))
        if p.w.extent >= 2 ** 31:
            yield f"w must span less than 2^31 elements; got {p.w.extent}"
        yield from too_many("c / groups * taps of w", p.w.count // max(p.w.n, 1))

    def cost(self, p, dev):
        g = Geometry.of(p.op, p.x, p.w, p.out)
        return 2.0 + best_tile(g.out_pixels, g.k, g.c * g.taps, g.groups, dev, p.x.dtype)[0]

    def configs(self, p, dev):
        return tile_configs()

    def plan(self, p, dev, tile=None):
        if p.out.count == 0:
            return []
        g = Geometry.of(p.op, p.x, p.w, p.out)
        depth = g.c * g.taps
        inner, flags = self._order(p, g)
        digits = depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)
        tile = tile or best_tile(g.out_pixels, g.k, depth, g.groups, dev, p.x.dtype)[1]
        args = dict(x=p.ptr("x"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), y=p.out_ptr(), alpha=p.scalar("alpha"), beta=p.scalar("beta"),
                    pixels=g.out_pixels, filters=g.k, depth=depth, flags=flags, channel_inner=int(inner), out=g.y.size,
                    digit=[n for n, _ in digits[:3]], size=g.x.size, stride=g.stride, pad=g.pad, dilation=g.dilation,
                    x_n=g.x.n_step, x_group=g.c * g.x.c_step, x_c=g.x.c_step, x_s=g.x.steps,
                    w_n=g.w.n_step, w_group=g.k * g.w.n_step, w_c=g.w.c_step, w_s=g.w.steps,
                    y_n=g.y.n_step, y_c=g.y.c_step, y_s=g.y.steps)
        return [Launch(f"conv_fprop_simt_{p.x.dtype}_{tile}", args, dict(tiles_of(tile, g.out_pixels, g.k), groups=g.groups), fuse(p))]

    @staticmethod
    def _order(p, g) -> tuple[bool, int]:
        """Whether channels run faster than taps, and the flags. x decides when its channels are neighbours, else w."""
        inner = g.c > 1 and (g.x.c_step == 1 and g.c >= 4 or g.w.c_step == 1)
        w_digits = depth_digits((g.c, g.w.c_step), zip(g.w.size, g.w.steps), inner)
        flags = 0
        if inner and g.x.c_step == 1:
            flags |= X_ALONG_DEPTH
            if g.c % 4 == 0 and quartets(p.x, [(g.c, 1)], (g.x.n_step, *g.x.steps)):
                flags |= X_VECTORS
        if g.k == 1 or closest(w_digits) <= g.w.n_step:
            flags |= W_ALONG_DEPTH
        if quartets(p.w, w_digits, (g.w.n_step, g.w_start)):
            flags |= W_VECTORS
        if g.k == 1 or g.y.closest_pixel() < g.y.c_step:
            flags |= OUT_ALONG_ROWS
        return inner, flags
