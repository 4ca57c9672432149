"""Data gradient on CUDA cores, whatever the strides, groups and dilation."""
from __future__ import annotations

from math import gcd, prod

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, Pointwise
from ...steps import Launch
from ..tile.matrices import too_many
from ..tile.simt import tiles_of
from .simt import ImageSimt, order


class ConvDgradSimt(ImageSimt):
    """Gather form: each pixel of dx sums over the taps that hit it;
    pixels equal modulo the stride meet the same taps, so no tap is skipped.

    A tap that falls outside dy counts as 0 * w, so an infinite or NaN filter reaches border pixels that the
    definition leaves alone.
    """
    index = 129
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    source = "conv/conv_dgrad_simt.cu"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("k / groups * taps of w", p.w.count // max(p.w.c, 1))

    def product(self, p):
        """Every class has about 1/classes of the pixels and of the taps."""
        g = self.geometry(p)
        classes = prod(map(min, g.stride, g.x.size))
        rows = ceil_div(g.x.n * prod(g.x.size), max(classes, 1))
        return rows, g.c, max(g.k * g.taps // max(classes, 1), 1), g.groups * classes

    def plan(self, p, dev, config):
        lead, g = self.lead(p), self.geometry(p)
        if lead.tensor.count == 0:
            return []
        inner, flags = order(p, g, g.y, g.x, (g.k, g.w.n_step), (g.c, g.w.c_step),
                             is_dense=set(g.stride) == {1})
        common = tuple(map(gcd, g.stride, g.dilation))
        classes = tuple(map(min, g.stride, g.x.size))
        largest = g.x.n * prod(ceil_div(n, s) for n, s in zip(g.x.size, g.stride))
        args = dict(dy=p.ptr("dy"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), alpha=p.scalar("alpha"),
                    **lead.store(p), images=g.x.n, channels=g.c, filters=g.k, flags=flags,
                    channel_inner=int(inner), **tiles_of(config.tile, largest, g.c), classes=classes,
                    size=g.x.size, dy_size=g.y.size, taps=g.w.size,
                    stride=g.stride, pad=g.pad, dilation=g.dilation,
                    tap_step=[s // c for s, c in zip(g.stride, common)],
                    z_step=[d // c for d, c in zip(g.dilation, common)],
                    dy_n=g.y.n_step, dy_group=g.k * g.y.c_step, dy_k=g.y.c_step, dy_s=g.y.steps,
                    w_c=g.w.c_step, w_group=g.k * g.w.n_step, w_k=g.w.n_step, w_s=g.w.steps,
                    dx_n=g.x.n_step, dx_c=g.x.c_step, dx_s=g.x.steps)
        return [Launch(f"conv_dgrad_simt_{p.dy.dtype}_{config.tile}", args, dict(groups=g.groups),
                       fusion.at("epilogue", self.fused(p)))]
