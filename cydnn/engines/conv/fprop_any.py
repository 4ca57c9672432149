"""Forward convolution of any types, strides and sizes,
with pointwise operations in front of it and behind it."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from .any import ImageAny, lifted


class ConvFpropAny(ImageAny):
    """Implicit GEMM whose operands spliced code loads, through the nodes in front, and whose sums (f32,
    f64 or i32) it stores, through the nodes behind."""
    index = 100
    takes = core(ConvFprop, before=many(Pointwise, at="x w"), behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM", "IMPLICIT_GEMM")

    def product(self, p):
        g = lifted(p)
        return g.out_pixels, g.k, g.c * g.taps, g.groups

    def plan(self, p, dev, config):
        g = lifted(p)
        if p.lead().tensor.count == 0:
            return []
        return self.launch(p, config, g.x, g.y, g.c, 0, taps=g.w.size, stride=g.stride,
                           first=[-a for a in g.pad], step=g.dilation, divide=(1, 1, 1), w_col=g.w.n_step,
                           w_group=g.k * g.w.n_step, w_in=g.w.c_step, w_s=g.w.steps)
