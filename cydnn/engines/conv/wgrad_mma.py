"""Gradient of a convolution with respect to its filter on tensor cores (mma.sync), NHWC."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvWgrad, Pointwise
from . import mma
from .wgrad_mma_view import WgradMma


class ConvWgradMma(WgradMma):
    """dw[k, trsc] = dy[npq, k]^T @ im2col(x)[npq, trsc]; ranges of pixels in parallel,
    their sums added in order; pointwise nodes are fused into the sum."""
    index = 150
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)

    def refuse_layout(self, p):
        yield from mma.not_nhwc("x", p.x)
        yield from mma.not_nhwc("dy", p.dy)
