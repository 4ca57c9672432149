"""Convolutions on CUDA cores, whatever the strides, groups and dilation: forward and data gradient."""
from __future__ import annotations

from math import gcd, prod
from typing import ClassVar

from ... import fusion
from ...graph import core, many
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, Pointwise
from ...steps import Launch
from ..engine import Engine
from ..tile.matrices import too_many
from ..tile.simt import KNOB, TILES, arithmetic_us, by_time, leaving_us, tile_us, tiles_of
from .view import (OUT_ALONG_ROWS, W_ALONG_DEPTH, W_ROW_VECTORS, W_VECTORS, X_ALONG_DEPTH, X_VECTORS,
                   Geometry, behind_image, closest, depth_digits, geometry, pixels_of, quartets, refusals)


class ImageSimt(Engine):
    """The base of forward and data gradient: images come out."""
    knobs = (KNOB,)
    source: ClassVar[str] = ""                   # of its kernel

    def refuse(self, p, dev):
        out = p.op.writes[0]
        yield from refusals(p, dev, self.source)
        yield from too_many(f"pixels of {out} (n and spatial dims)", pixels_of(p.operands[out]))
        if p.w.extent >= 2 ** 31:
            yield f"w must span less than 2^31 elements; got {p.w.extent}"
        yield from fusion.reasons(self.fused(p))

    @staticmethod
    def image(p):
        """The operand that is read through the window."""
        return p.operands[p.op.reads[0]]

    def lead(self, p):
        return p.lead(self.image(p).dtype.name)

    def geometry(self, p) -> Geometry:
        return geometry(p, self.lead(p))

    def fused(self, p):
        kind = self.image(p).dtype
        return behind_image(p, kind.name, 1, kind.compute)

    def product(self, p) -> tuple:
        """Rows, columns, depth and groups."""
        raise NotImplementedError

    def configs(self, p, dev):
        return iter(by_time(TILES, *self.product(p), dev, self.image(p).dtype.compute))

    def least_us(self, p, dev):
        return arithmetic_us(p, dev)

    def cost(self, p, dev, config):
        rows, columns, _, groups = self.product(p)
        kind = self.image(p).dtype
        stored = leaving_us(config.tile, rows, columns, groups, dev, kind.bits)
        return dev.launch_us + stored + tile_us(config.tile, *self.product(p), dev, kind.compute)


def order(p, g: Geometry, source, target, depth: tuple, columns: tuple, is_dense: bool) -> tuple[bool, int]:
    """Whether channels run faster than taps in the sums, and the flags. The image decides when its channels
    are neighbours, else w.

    ``source``, ``target``: the images that are read and written, lifted. ``depth``, ``columns``: (size, step
    in w) of the channels that a sum runs over, and of those that it is made for. ``is_dense``: every tap
    counts for every pixel, so that neighbours in w are neighbours in a sum.
    """
    (channels, step), (count, column_step), image = depth, columns, p.operands[p.op.reads[0]]
    inner = channels > 1 and (source.c_step == 1 and channels >= 4 or step == 1)
    digits = depth_digits(depth, zip(g.w.size, g.w.steps), inner)
    flags = 0
    if inner and source.c_step == 1:
        flags |= X_ALONG_DEPTH
        if channels % 4 == 0 and quartets(image, [(channels, 1)], (source.n_step, *source.steps)):
            flags |= X_VECTORS
    if count == 1 or closest(digits) <= column_step:
        flags |= W_ALONG_DEPTH
    others = column_step, g.w_start, g.k * g.w.n_step * (g.groups > 1)
    if is_dense and quartets(p.w, digits, others):
        flags |= W_VECTORS
    elif not flags & W_ALONG_DEPTH and quartets(p.w, [columns], (step, *g.w.steps, g.w_start)):
        flags |= W_ROW_VECTORS                   # the kernel of dgrad takes them
    if count == 1 or target.closest_pixel() < target.c_step:
        flags |= OUT_ALONG_ROWS
    return inner, flags


class ConvFpropSimt(ImageSimt):
    """Implicit GEMM: y[npq, k] = im2col(x)[npq, crs] @ w[crs, k], the im2col done by index arithmetic.
    Sums in f32 (f64 for f64)."""
    index = 109
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_GEMM",)
    source, form = "conv/conv_fprop_simt.cu", "computed"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("c / groups * taps of w", p.w.count // max(p.w.n, 1))

    def product(self, p):
        g = self.geometry(p)
        return g.out_pixels, g.k, g.c * g.taps, g.groups

    def plan(self, p, dev, config):
        lead, g = self.lead(p), self.geometry(p)
        if lead.tensor.count == 0:
            return []
        inner, flags = order(p, g, g.x, g.y, (g.c, g.w.c_step), (g.k, g.w.n_step), is_dense=True)
        digits = depth_digits((g.c, 0), ((n, 0) for n in g.w.size), inner)
        args = dict(x=p.ptr("x"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), alpha=p.scalar("alpha"),
                    **lead.store(p), pixels=g.out_pixels, filters=g.k, depth=g.c * g.taps, flags=flags,
                    channel_inner=int(inner), out=g.y.size, digit=[n for n, _ in digits[:3]], size=g.x.size,
                    stride=g.stride, pad=g.pad, dilation=g.dilation,
                    x_n=g.x.n_step, x_group=g.c * g.x.c_step, x_c=g.x.c_step, x_s=g.x.steps,
                    w_n=g.w.n_step, w_group=g.k * g.w.n_step, w_c=g.w.c_step, w_s=g.w.steps,
                    y_n=g.y.n_step, y_c=g.y.c_step, y_s=g.y.steps)
        extra = dict(tiles_of(config.tile, g.out_pixels, g.k), groups=g.groups)
        front, index = self._index(p, args)
        return [*front, Launch(f"conv_fprop_simt_{p.x.dtype}_{config.tile}_{self.form}",
                               args | dict(index=index), extra, fusion.at("epilogue", self.fused(p)))]

    def _index(self, p, args: dict) -> tuple:
        """Steps that make a table of the depth, and its address."""
        return (), None


MOST = 2 ** 31 // 5                              # entries of a table: of five numbers each, in 31 bits
TABLE = "depth channel_inner digit dilation x_c x_s w_c w_s".split()       # what the table is made of


class ConvFpropIndexed(ConvFpropSimt):
    """ConvFpropSimt with the offsets of channels and taps computed once, into a table in the workspace."""
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


class ConvDgradSimt(ImageSimt):
    """Gather form: each pixel of dx sums over the taps that hit it;
    pixels equal modulo the stride meet the same taps, so no tap is skipped.

    A tap that falls outside dy counts as 0 * w, so an infinite or NaN filter reaches border pixels that the
    definition leaves alone.
    """
    index = 129
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    source = "conv/conv_dgrad_simt.cu"

    def refuse(self, p, dev):
        yield from super().refuse(p, dev)
        yield from too_many("k / groups * taps of w", p.w.count // max(p.w.c, 1))

    def product(self, p):
        """Every class has about 1/classes of the pixels and of the taps."""
        g = self.geometry(p)
        classes = prod(map(min, g.stride, g.x.size))
        rows = ceil_div(g.x.n * prod(g.x.size), max(classes, 1))
        return rows, g.c, max(g.k * g.taps // max(classes, 1), 1), g.groups * classes

    def plan(self, p, dev, config):
        lead, g = self.lead(p), self.geometry(p)
        if lead.tensor.count == 0:
            return []
        inner, flags = order(p, g, g.y, g.x, (g.k, g.w.n_step), (g.c, g.w.c_step),
                             is_dense=set(g.stride) == {1})
        common = tuple(map(gcd, g.stride, g.dilation))
        classes = tuple(map(min, g.stride, g.x.size))
        largest = g.x.n * prod(ceil_div(n, s) for n, s in zip(g.x.size, g.stride))
        args = dict(dy=p.ptr("dy"), w=p.ptr("w", g.w_start * p.w.dtype.bytes), alpha=p.scalar("alpha"),
                    **lead.store(p), images=g.x.n, channels=g.c, filters=g.k, flags=flags,
                    channel_inner=int(inner), **tiles_of(config.tile, largest, g.c), classes=classes,
                    size=g.x.size, dy_size=g.y.size, taps=g.w.size,
                    stride=g.stride, pad=g.pad, dilation=g.dilation,
                    tap_step=[s // c for s, c in zip(g.stride, common)],
                    z_step=[d // c for d, c in zip(g.dilation, common)],
                    dy_n=g.y.n_step, dy_group=g.k * g.y.c_step, dy_k=g.y.c_step, dy_s=g.y.steps,
                    w_c=g.w.c_step, w_group=g.k * g.w.n_step, w_k=g.w.n_step, w_s=g.w.steps,
                    dx_n=g.x.n_step, dx_c=g.x.c_step, dx_s=g.x.steps)
        return [Launch(f"conv_dgrad_simt_{p.dy.dtype}_{config.tile}", args, dict(groups=g.groups),
                       fusion.at("epilogue", self.fused(p)))]
