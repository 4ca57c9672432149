"""Filter gradient on CUDA cores whose parts are added atomically."""
from __future__ import annotations

from ...graph import core
from ...ops import ConvWgrad
from ..engine import Knob
from ..tile.simt import TILES
from . import added
from .view import Lifted
from .wgrad_simt import ConvWgradSimt


class ConvWgradAtomic(ConvWgradSimt):
    """As ConvWgradSimt, but every block adds its sums to dw as it finishes: no part lies in the workspace
    (16-bit dw: one f32 image of it does), and the order of the additions differs from run to run."""
    index = 154
    takes = core(ConvWgrad)
    v5 = ("ALGO_0",)
    knobs = (Knob("tile", tuple(t for t in TILES if t != "t128x64")), Knob("splits", lo=1, hi=2 ** 20))
    notes = only_for = added.NOTES
    form = "atomic"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from added.refusals(p, "dw", p.x.dtype.compute)

    def _adding_us(self, p, dev, count) -> float:
        return added.adding_us(p, "dw", p.x.dtype.compute, count * p.dw.count, dev)

    def _most_splits(self, p) -> int:
        return 2 ** 20

    def plan(self, p, dev, config):
        if p.dw.count == 0:
            return []
        g, split = self._geometry(p), self._splitting(p, dev, config.tile, config.splits)
        sums, (inner, digit) = added.Added.into(p, "dw", p.x.dtype.compute), self._digits(g)
        start, filters = 0, Lifted.of(sums.desc)
        if p.op.mode == "convolution":
            start, filters = filters.flipped()
        out = dict(dw=None, beta=0.0, parts=sums.pointer + start * sums.desc.dtype.bytes, alpha=sums.alpha,
                   channel_inner=int(inner), digit=digit, dw_k=filters.n_step, dw_c=filters.c_step,
                   dw_s=filters.steps)
        return [*sums.front, *self._steps(p, g, split, out), *sums.behind]

    def _steps(self, p, g, split, out) -> list:
        return [self._product(p, g, split, out)]
