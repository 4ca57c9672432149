"""Filter gradient of any types, strides and sizes, with pointwise operations in front of it and behind it."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Site
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, powers, wrong_device
from ..sums import sum_type, wrong_sums
from ..tile.matrices import too_many
from ..tile.simt import SMALL, SMALL_KNOB, arithmetic_us, tile_us, tiles_of
from ..tile.split_k import PART_BYTES, sums_us
from .any import CHANNEL_INNER, FLIPPED, W_ALONG_DEPTH, X_ALONG_DEPTH, lifted, load, store

UNIT, FEWEST = 32, 256                           # pixels: what a split is a multiple of, what is worth one


class ConvWgradAny(Engine):
    """Implicit GEMM over pixels whose operands spliced code loads, through the nodes in front,
    and whose sums (f32, f64 or i32) it stores, through the nodes behind. The pixels are split;
    the parts are added in order."""
    index = 140
    takes = core(ConvWgrad, before=many(Pointwise, at="x dy"), behind=many(Pointwise))
    v5 = ("ALGO_1", "ALGO_0", "ALGO_3")
    knobs = (SMALL_KNOB, Knob("splits", lo=1, hi=2 ** 20))

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_sums(p)
        yield from too_many("pixels of dy (n and spatial dims)", lifted(p).out_pixels)
        yield from too_many("elements of dw", p.dw.count)
        yield from fusion.reasons(load(p, "x"), load(p, "dy", number="k"), self._store(p))

    @staticmethod
    def _is_inner(g) -> bool:
        return g.c > 1 and (g.x.c_step == 1 or g.w.c_step == 1)

    def _store(self, p):
        def site(lead):
            rank = len(lead.tensor.dims)
            inside = (*range(2, rank), 1) if self._is_inner(lifted(p)) else tuple(range(1, rank))
            return Site(lead.tensor.dims, lead.tensor, (("row", (0,)), ("col", inside)))
        return store(p, site)

    def _cut(self, p, dev, config) -> tuple:
        """(microseconds, number of splits, pixels of a split)."""
        g = lifted(p)
        rows, size = g.c * g.taps, BY_NAME[sum_type(p)].bytes
        fits = max(PART_BYTES // max(p.dw.count * size, 1), 1)
        each = ceil_div(max(g.out_pixels, 1), min(config.splits, fits) * UNIT) * UNIT
        count = max(ceil_div(g.out_pixels, each), 1)
        sums = sums_us(count * p.dw.count * size, count, dev) if count > 1 else 0.0
        us = 2 * tile_us(config.tile, rows, g.k, each, g.groups * count, dev, sum_type(p))
        return us + sums, count, each

    def configs(self, p, dev):
        g, found = lifted(p), []
        for tile in SMALL:
            blocks = max(prod(tiles_of(tile, g.c * g.taps, g.k).values()) * g.groups, 1)
            for waves in (1, 4):
                wish = min(max(dev.sms * waves // blocks, 1), max(g.out_pixels // FEWEST, 1))
                us, count, _ = self._cut(p, dev, Config(tile=tile, splits=wish))
                found.append((us, tile, count))
        best = min(found)
        others = (Config(tile=t, splits=n) for t in SMALL for n in powers(ceil_div(g.out_pixels, UNIT)))
        return first_then(Config(tile=best[1], splits=best[2]), others)

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        return dev.launch_us + self._cut(p, dev, config)[0]

    def plan(self, p, dev, config):
        g, kind = lifted(p), sum_type(p)
        if p.lead().tensor.count == 0:
            return []
        _, splits, each = self._cut(p, dev, config)
        rows, inner = g.c * g.taps, self._is_inner(g)
        parts = p.scratch(splits * p.dw.count * BY_NAME[kind].bytes) if splits > 1 else None
        deep = X_ALONG_DEPTH * (g.x.closest_pixel() <= max(g.x.c_step, 1))
        deep |= W_ALONG_DEPTH * (g.y.closest_pixel() <= max(g.y.c_step, 1))
        flags = CHANNEL_INNER * inner | deep | FLIPPED * (p.op.mode == "convolution")
        args = dict(parts=parts, rows=rows, filters=g.k, pixels=g.out_pixels, split_pixels=each,
                    groups=g.groups, flags=flags, out=[max(n, 1) for n in g.y.size], channels=max(g.c, 1),
                    taps=g.w.size, size=g.x.size, stride=g.stride, pad=g.pad, dilation=g.dilation,
                    x_n=g.x.n_step, x_c=g.x.c_step, x_s=g.x.steps, dy_n=g.y.n_step, dy_k=g.y.c_step,
                    dy_s=g.y.steps, dw_k=g.w.n_step, dw_c=g.w.c_step, dw_s=g.w.steps)
        extra = dict(tiles_of(config.tile, rows, g.k), splits=splits)
        loads = {"load_x": load(p, "x"), "load_w": load(p, "dy", number="k")}
        kernel = f"conv_wgrad_any_{kind}_{config.tile}"
        if parts is None:
            return [Launch(kernel, args, extra, {**loads, "store": self._store(p)})]
        digit = [g.c, *g.w.size[::-1]][:3] if inner else g.w.size[::-1]
        one = 1 if kind == "i32" else 1.0
        total = dict(parts=parts, dw=None, alpha=one, beta=0 * one, count=p.dw.count, splits=splits,
                     channel_inner=int(inner), rows=rows, digit=digit, dw_k=g.w.n_step, dw_c=g.w.c_step,
                     dw_s=g.w.steps)
        return [Launch(kernel, args, extra, loads),
                Launch(f"conv_wgrad_simt_sum_{kind}", total, {}, {"epilogue": self._store(p)})]
