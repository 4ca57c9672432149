"""Reduction of any types on any strides, with pointwise operations in front of it and behind it."""
from __future__ import annotations

from ... import fusion
from ...fusion import At, Extra, Fused, Program, Site
from ...dtypes import BY_NAME
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import Pointwise, Reduction
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, moved_us, powers, wrong_device
from .reduction import AHEAD, BLOCK, FOLDS, ON_ELEMENTS, eight, power, splits_for, too_many, view, width_for

MOST_SPLITS = 1024                               # of one result
ALONG, ACROSS = 0.17, 0.08                       # of the bandwidth: what is reduced lies side by side, or not


class ReductionAny(Engine):
    """Spliced code loads the elements, through the nodes in front, and stores the results,
    through the nodes behind."""
    index = 283
    takes = core(Reduction, before=many(Pointwise, at="x"), behind=many(Pointwise))
    knobs = (Knob("splits", lo=1, hi=MOST_SPLITS),)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        v = view(self._model(p), p.y)
        if v.outputs:
            yield from too_many(v, v.reduced)
            yield from fusion.reasons(self._load(p), self._store(p))

    @staticmethod
    def _lead(p):
        """The tensor that the kernel's offsets count in: x, or what is read in its place;
        None where nothing has its dims."""
        if "x" not in p.before:
            return p.x
        found = [p.graph.tensors[u] for u in p.region.inputs]
        whole = (t for t in found if not t.is_by_value and t.dtype.bits >= 8)
        return next((t for t in whole if t.dims == p.x.dims), None)

    def _model(self, p):
        """What decides the order of indices."""
        lead = self._lead(p)
        return p.x if lead is None else lead

    def _axes(self, p) -> tuple:
        """Kept and reduced dims, the slowest first, as the merged dims of ``view`` have them."""
        x, y = self._model(p), p.y
        kept = sorted((a for a in range(x.rank) if x.dims[a] == y.dims[a] != 1),
                      key=lambda a: (x.strides[a], y.strides[a]))
        inside = sorted((a for a in range(x.rank) if x.dims[a] != y.dims[a]), key=lambda a: x.strides[a])
        return tuple(kept[::-1]), tuple(inside[::-1])

    @staticmethod
    def _math(p) -> str:
        return fusion.math_before(p, "x", p.op.math)

    @fusion.attempt
    def _load(self, p):
        kept, inside = self._axes(p)
        site = Site(p.x.dims, self._lead(p), (("out", kept), ("in", inside)))
        return fusion.before(p, "x", site, self._math(p))

    @fusion.attempt
    def _store(self, p):
        site = Site(p.y.dims, None, (("out", self._axes(p)[0]),))
        return fusion.behind(p, site, p.lead(), mark_type=self._math(p), alpha="alpha", beta="beta")

    def configs(self, p, dev):
        v = view(self._model(p), p.y)
        width = width_for(dev, v.outputs, v.reduced) if v.outputs else 1
        if width < BLOCK:
            return iter((Config(splits=1),))
        most = min(v.reduced // (BLOCK * AHEAD), MOST_SPLITS)
        best = min(splits_for(dev, v.outputs, v.reduced, BLOCK * AHEAD), MOST_SPLITS)
        return first_then(Config(splits=best), (Config(splits=n) for n in powers(most)))

    def cost(self, p, dev, config):
        v = view(self._model(p), p.y)
        width = width_for(dev, v.outputs, v.reduced) if v.outputs else 1
        blocks = max(ceil_div(v.outputs * width, BLOCK), 1) * config.splits
        share = ALONG if v.inner_strides and v.inner_strides[0] == 1 else ACROSS
        speed = min(dev.bandwidth_gbs * share, blocks * dev.sm_gbs)
        us = dev.launch_us + p.region.traffic_bytes / speed * 1e-3
        return us if config.splits == 1 else us + moved_us(16 * v.outputs * config.splits, dev)

    def plan(self, p, dev, config):
        v, math = view(self._model(p), p.y), self._math(p)
        if not v.outputs:
            return []
        fold, how = FOLDS[p.op.mode]
        width = width_for(dev, v.outputs, v.reduced)
        splits = config.splits
        is_walked = self._lead(p) is not None            # else nothing is read at the kernel's own offset
        args = dict(part=None, outputs=v.outputs, units=v.reduced, splits=splits, width=width,
                    in_dims=eight(v.inner, 1), in_strides=eight(v.inner_strides if is_walked else (), 0),
                    out_dims=eight(v.outer, 1), x_strides=eight(v.x_strides if is_walked else (), 0),
                    how=how, count=v.reduced)
        kernel, size = f"reduction_any_{fold}_{math}", BY_NAME[math].bytes
        if splits == 1:
            return [Launch(kernel, args, {}, {"load_x": self._load(p), "store": self._store(p)})]
        part = p.scratch(v.outputs * splits * size)
        first = args | dict(part=part, how=how & ON_ELEMENTS)
        second = args | dict(units=splits, splits=1, width=power(ceil_div(splits, 4)),
                             in_dims=eight((splits,), 1), in_strides=eight((1,), 0),
                             x_strides=eight(tuple(self._apart(v, splits)), 0), how=how & ~ON_ELEMENTS)
        read = Fused(Program(math, (), (Extra(math, At((("off", 1),))),), result="t0"), (part,))
        return [Launch(kernel, first, {}, {"load_x": self._load(p)}),
                Launch(kernel, second, {}, {"load_x": read, "store": self._store(p)})]

    @staticmethod
    def _apart(v, splits):
        """Strides of the kept dims over the partial results of all outputs."""
        step = splits
        for size in v.outer:
            yield step
            step *= size
