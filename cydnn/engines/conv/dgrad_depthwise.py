"""Data gradient of a depthwise convolution of channels-last tensors."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvDgrad, Pointwise
from .depthwise import Depthwise


class ConvDgradDepthwise(Depthwise):
    """The forward kernel on dy with the filter read backwards;
    between the pixels of a strided dy it skips."""
    index = 128
    takes = core(ConvDgrad, behind=many(Pointwise))

    def plan(self, p, dev, config):
        if self.lead(p).tensor.count == 0:
            return []
        g = self.geometry(p)
        last, backwards = g.w.flipped()
        pad = [d * (r - 1) - b for d, r, b in zip(g.dilation, g.w.size, g.pad)]
        return self.direct(p, g.y, g.x, "dy", g.w_start + last, backwards.steps, w_c=g.w.n_step,
                           taps=g.w.size, stride=(1, 1, 1), pad=pad, dilation=g.dilation, divide=g.stride,
                           skip=1)
