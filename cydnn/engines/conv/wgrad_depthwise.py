"""Filter gradient of a depthwise convolution of channels-last tensors."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..tile.matrices import MOST
from .depthwise import BLOCK_BYTES, Depthwise
from .view import behind_filter


class ConvWgradDepthwise(Depthwise):
    """Blocks sum ranges of pixels for 256 bytes of channels,
    and the ranges are added in order: equal in every run."""
    index = 148
    takes = core(ConvWgrad, behind=many(Pointwise))

    def fused(self, p):
        return behind_filter(p, (p.x.dtype.name,), channel_inner=False)

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def plan(self, p, dev, config):
        lead, g, dtype = self.lead(p), self.geometry(p), p.x.dtype
        if lead.tensor.count == 0:
            return []
        taps, pixels, count = prod(g.w.size), g.out_pixels, lead.tensor.count
        columns = ceil_div(g.groups * dtype.bytes, BLOCK_BYTES)
        wish = max(min(4 * dev.sms // columns, pixels // 64, MOST // count), 1)
        each = max(ceil_div(pixels, wish), 1)
        splits = max(ceil_div(pixels, each), 1)
        parts, store = p.scratch(splits * count * 4), lead.store(p)
        if lead.is_native:
            store["dw"] += g.w_start * dtype.bytes
        sums = dict(x=p.ptr("x"), dy=p.ptr("dy"), parts=parts, channels=g.groups, pixels=pixels,
                    split_pixels=each, out=g.y.size, size=g.x.size, taps=g.w.size, stride=g.stride, pad=g.pad,
                    dilation=g.dilation, x_n=g.x.n_step, x_s=g.x.steps, dy_n=g.y.n_step, dy_s=g.y.steps)
        total = dict(parts=parts, **store, alpha=p.scalar("alpha"), count=count, splits=splits,
                     channel_inner=0, rows=taps, digit=g.w.size[::-1], dw_k=g.w.n_step, dw_c=0,
                     dw_s=g.w.steps)
        return [Launch(f"conv_depthwise_wgrad_{dtype}", sums, dict(splits=splits)),
                Launch(f"conv_wgrad_simt_sum_{dtype}", total, {}, fusion.at("epilogue", self.fused(p)))]
