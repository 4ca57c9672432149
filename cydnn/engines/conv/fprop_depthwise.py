"""Depthwise convolution of channels-last tensors, without a matrix product."""
from __future__ import annotations

from ...graph import core, many
from ...ops import ConvFprop, Pointwise
from .depthwise import Depthwise


class ConvFpropDepthwise(Depthwise):
    """A thread makes 16 bytes of channels of four neighbouring outputs;
    filters in shared memory, sums in f32."""
    index = 108
    takes = core(ConvFprop, behind=many(Pointwise))

    def plan(self, p, dev, config):
        if self.lead(p).tensor.count == 0:
            return []
        g = self.geometry(p)
        return self.direct(p, g.x, g.y, "x", g.w_start, g.w.steps, w_c=g.w.n_step, taps=g.w.size,
                           stride=g.stride, pad=g.pad, dilation=g.dilation, divide=(1, 1, 1), skip=0)
