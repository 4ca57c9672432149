"""Convolutions of any types, strides and sizes, with pointwise operations in front and behind."""
from __future__ import annotations

from math import prod

from ... import fusion
from ...dtypes import BY_NAME
from ...fusion import Site
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, powers, wrong_device
from ..sums import lead_input, sum_type, wrong_sums
from ..tile.matrices import too_many
from ..tile.simt import SMALL, SMALL_KNOB, arithmetic_us, by_time, tile_us, tiles_of
from ..tile.split_k import PART_BYTES, sums_us
from .view import Geometry, Lifted, point_site

(CHANNEL_INNER, X_ALONG_DEPTH, W_ALONG_DEPTH,
 OUT_ALONG_ROWS, DATA_GRADIENT, FLIPPED) = (1 << i for i in range(6))


def walked(p, name):
    """The tensor whose strides a kernel walks for an operand; the operand itself where no offset is used."""
    return lead_input(p, name) or p.operands[name]


@fusion.attempt
def load(p, name: str, channel="c", number="n"):
    """How the kernel gets an operand."""
    site = point_site(p.operands[name], lead_input(p, name), channel, number)
    return fusion.before(p, name, site, fusion.math_before(p, name, sum_type(p)))


@fusion.attempt
def store(p, site):
    """What stores the sums, through the nodes behind; ``site``: of a lead."""
    lead = p.lead()._replace(is_native=False)
    return fusion.behind(p, site(lead), lead, mark_type=sum_type(p), alpha="alpha", beta="beta")


def image_site(lead) -> Site:
    """The mark of a kernel that writes images: row counts pixels (with n), col channels."""
    rank = len(lead.tensor.dims)
    return Site(lead.tensor.dims, lead.tensor, (("row", (0, *range(2, rank))), ("col", (1,))))


class ImageAny(Engine):
    """The base of forward and data gradient: images come out."""
    knobs = (SMALL_KNOB,)

    def refuse(self, p, dev):
        yield from wrong_device(dev)
        yield from wrong_sums(p)
        rows, columns, depth, groups = self.product(p)
        yield from too_many("pixels of the output (n and spatial dims)", rows)
        yield from too_many("channels x taps of a sum", depth)
        yield from fusion.reasons(load(p, p.op.reads[0]), load(p, "w", number="k"), store(p, image_site))

    def product(self, p) -> tuple:
        """Rows, columns, depth and groups."""
        raise NotImplementedError

    def configs(self, p, dev):
        return iter(by_time(SMALL, *self.product(p), dev, sum_type(p)))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        return dev.launch_us + 2 * tile_us(config.tile, *self.product(p), dev, sum_type(p))

    def launch(self, p, config, source, target, channels: int, flags: int, **window):
        """One launch; ``source`` and ``target`` are what is read and written, lifted;
        ``channels`` of a group in the depth."""
        rows, columns, depth, groups = self.product(p)
        inner = channels > 1 and source.c_step == 1
        lanes = X_ALONG_DEPTH * inner | W_ALONG_DEPTH * (columns == 1 or not inner)
        across = columns == 1 or target.closest_pixel() < target.c_step
        flipped = p.op.mode == "convolution"
        flags |= CHANNEL_INNER * inner | lanes | OUT_ALONG_ROWS * across | FLIPPED * flipped
        args = dict(pixels=rows, columns=columns, depth=depth, in_channels=channels, flags=flags,
                    out=[max(n, 1) for n in target.size], channels=max(channels, 1), size=source.size,
                    x_n=source.n_step, x_c=source.c_step, x_s=source.steps,
                    y_n=target.n_step, y_c=target.c_step, y_s=target.steps, **window)
        fuse = {"load_x": load(p, p.op.reads[0]), "load_w": load(p, "w", number="k"),
                "store": store(p, image_site)}
        extra = dict(tiles_of(config.tile, rows, columns), groups=groups)
        return [Launch(f"conv_any_{sum_type(p)}_{config.tile}", args, extra, fuse)]


@once_per_match
def lifted(p) -> Geometry:
    """The geometry with the strides that the kernels walk; the filter is not turned round, the kernels do
    that."""
    tensors = [p.lead().tensor if n in p.op.writes else walked(p, n) for n in p.op.parts]
    g = Geometry.of(p.op, *tensors)
    return Geometry(g.x, Lifted.of(tensors[1]), g.y, 0, g.groups, g.pad, g.stride, g.dilation)


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


class ConvDgradAny(ImageAny):
    """Implicit GEMM as of conv_fprop_any, on dy: every pixel of dx looks at all taps and takes those that hit
    it."""
    index = 120
    takes = core(ConvDgrad, before=many(Pointwise, at="dy w"), behind=many(Pointwise))
    v5 = ("ALGO_1", "ALGO_0")

    def product(self, p):
        g = lifted(p)
        return g.x.n * prod(g.x.size), g.c, g.k * g.taps, g.groups

    def plan(self, p, dev, config):
        g = lifted(p)
        if p.lead().tensor.count == 0:
            return []
        return self.launch(p, config, g.y, g.x, g.k, DATA_GRADIENT, taps=g.w.size, stride=(1, 1, 1),
                           first=g.pad, step=[-d for d in g.dilation], divide=g.stride, w_col=g.w.c_step,
                           w_group=g.k * g.w.n_step, w_in=g.w.n_step, w_s=g.w.steps)


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
