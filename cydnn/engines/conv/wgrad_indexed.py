"""Filter gradient on CUDA cores whose parts are added atomically, with looked-up pixels."""
from __future__ import annotations

from math import prod

from ...steps import Launch
from ..tile.matrices import too_many
from .fprop_indexed import MOST
from .wgrad_atomic import ConvWgradAtomic


class ConvWgradIndexed(ConvWgradAtomic):
    """As ConvWgradAtomic; where the pixels of an image lie is computed once, into a table in the
    workspace."""
    index = 155
    v5 = ("ALGO_3",)
    form = "indexed"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("pixels of an image of dy", prod(p.dy.spatial), MOST)

    def cost(self, p, dev, config):
        return dev.launch_us + super().cost(p, dev, config)

    def _steps(self, p, g, split, out) -> list:
        pixels = prod(g.y.size)
        index = p.scratch(20 * pixels)
        table = Launch("conv_wgrad_index", dict(to=index, pixels=pixels, out=g.y.size, stride=g.stride,
                                                pad=g.pad, x_s=g.x.steps, dy_s=g.y.steps))
        return [table, self._product(p, g, split, out | dict(out=(1, 1, pixels)), index)]
