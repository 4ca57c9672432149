"""Forward convolution on CUDA cores with looked-up channels and taps."""
from __future__ import annotations

from ...steps import Launch
from ..tile.matrices import too_many
from .fprop_simt import ConvFpropSimt

MOST = 2 ** 31 // 5                              # entries of a table: of five numbers each, in 31 bits
TABLE = "depth channel_inner digit dilation x_c x_s w_c w_s".split()       # what the table is made of


class ConvFpropIndexed(ConvFpropSimt):
    """As ConvFpropSimt; where channels and taps lie is computed once, into a table in the workspace."""
    index = 116
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    form = "indexed"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("c / groups * taps of w", p.w.count // max(p.w.n, 1), MOST)

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def _index(self, p, args):
        area = p.scratch(20 * args["depth"])
        return [Launch("conv_fprop_index", dict(to=area, **{name: args[name] for name in TABLE}))], area
