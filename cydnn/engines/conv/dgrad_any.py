"""Data gradient of any types, strides and sizes, with pointwise operations in front of it and behind it."""
from __future__ import annotations

from math import prod

from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from .any import DATA_GRADIENT, ImageAny, lifted


class ConvDgradAny(ImageAny):
    """As conv_fprop_any, on dy: every pixel of dx looks at all taps and takes those that hit it."""
    index = 120
    takes = core(ConvDgrad, before=many(Pointwise, at="dy w"), behind=many(Pointwise))
    v5 = ("ALGO_1", "ALGO_0")

    def product(self, p):
        g = lifted(p)
        return g.x.n * prod(g.x.size), g.c, g.k * g.taps, g.groups

    def plan(self, p, dev, config):
        g = lifted(p)
        if p.lead().tensor.count == 0:
            return []
        return self.launch(p, config, g.y, g.x, g.k, DATA_GRADIENT, taps=g.w.size, stride=(1, 1, 1),
                           first=g.pad, step=[-d for d in g.dilation], divide=g.stride, w_col=g.w.c_step,
                           w_group=g.k * g.w.n_step, w_in=g.w.n_step, w_s=g.w.steps)
