"""Convolutions by Winograd's transforms: filters, image tiles and products in the transformed domain.

y = A^T [(G w G^T) * (B^T x B)] A for every tile of out x out outputs of a 3x3 correlation (kernels in
kernels_src/conv/conv_winograd_*.cu). The products at one point of the transformed tiles, over all tiles and
channels, are one matrix product; those of all points are a batch of them. Everything between input and output
is f32, whatever the tensors' types.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from ...graph import core, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, Matmul
from ...steps import Launch, Pointer, placed
from ...tensor import TensorDesc
from ..engine import Config, Engine, Knob, first_then, moved_us, no_variant, powers, wrong_device
from ..nested import NestedOp, NestedOperand
from ..tile.matrices import too_many
from ..tile.simt import arithmetic_us
from .view import Geometry, Lifted, plain_geometry

PART_BYTES = 1 << 30                             # most workspace for the transformed tiles and the products
UNIT = 128                                       # tiles: what a part is a multiple of
EFFICIENCY = 0.6                                 # share of the bandwidth that transforms reach, on an H200
AREAS = "a", "b", "c"                            # stand for the addresses of a product, until it is placed

MATRICES = {                                     # outputs of a tile, in one dim: (B^T, G, A^T)
    2: ([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]]),
    4: ([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0],
         [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]],
        [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
         [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]),
}


@dataclass(frozen=True)
class Correlation:
    """A 3x3 correlation of stride 1: the forward convolution, or the data gradient seen as one: of dy with
    the filter turned round, its two channels exchanged. ``taps``: steps of the filter along (in, out, r, s)
    from element ``start`` on."""
    source: Lifted
    target: Lifted
    inputs: int
    outputs: int
    pad: tuple
    start: int
    taps: tuple

    @classmethod
    def forward(cls, g: Geometry) -> "Correlation":
        return cls(g.x, g.y, g.c, g.k, g.pad[1:], g.w_start, (g.w.c_step, g.w.n_step, *g.w.steps[1:]))

    @classmethod
    def backward(cls, g: Geometry) -> "Correlation":
        last, w = g.w.flipped()
        return cls(g.y, g.x, g.k, g.c, tuple(2 - a for a in g.pad[1:]), g.w_start + last,
                   (w.n_step, w.c_step, *w.steps[1:]))


class InTiles(Engine):
    """The base: 3x3 filters of stride 1 over tiles of out x out outputs, in parts of the tiles."""
    out: ClassVar[int] = 0
    knobs = (Knob("chunks", lo=1, hi=2 ** 20),)
    geometry = staticmethod(plain_geometry)

    def __init__(self, *products: Engine):
        """``products``: the engines of the matmul, from the table of all engines (engines/__init__.py)."""
        self.products = products

    # ---- What an engine says ----

    def tiled(self, p) -> Lifted:
        """The image whose pixels are in tiles."""
        raise NotImplementedError

    def row_bytes(self, p) -> int:
        """Workspace of a tile."""
        raise NotImplementedError

    # ---- What follows from it ----

    @property
    def points(self) -> int:
        return (self.out + 2) ** 2

    def wrong(self, p, dev, source: str):
        """The reasons of a device, of types, and of a window."""
        name, filters = p.op.reads[0], p.operands[p.op.parts[1]]
        yield from wrong_device(dev)
        yield from no_variant(p, source, *p.op.operands(), same=False)
        if p.op.math != "f32":
            yield f"compute must be f32; got {p.op.compute}"
        if p.operands[name].rank != 4:
            yield f"{name} must have 2 spatial dims; got {p.operands[name].rank - 2}"
            return
        _, _, stride, dilation = p.op.geometry(4)
        for what, got, want in (("the filter", filters.spatial, (3, 3)), ("stride", stride, (1, 1)),
                                ("dilation", dilation, (1, 1))):
            if tuple(got) != want:
                yield f"{what} must be {want}; got {tuple(got)}"
        groups = self.geometry(p).groups
        if groups != 1:
            yield f"there must be one group; got {groups}"
        yield from too_many("channels", max(filters.c, filters.n), 8 * 65535)

    def tiles(self, p) -> tuple:
        """(tiles of all images, down an image, along one)."""
        image = self.tiled(p)
        down, along = (ceil_div(n, self.out) for n in image.size[1:])
        return image.n * down * along, down, along

    def rows(self, p, parts: int) -> int:
        """Tiles of a part."""
        return ceil_div(max(self.tiles(p)[0], 1), parts * UNIT) * UNIT

    def cuts(self, p, parts: int):
        """(the first tile, how many in whole vectors) of each part."""
        tiles = self.tiles(p)[0]
        rows = min(self.rows(p, parts), ceil_div(tiles, 4) * 4)
        return [(first, min(rows, ceil_div(tiles - first, 4) * 4)) for first in range(0, tiles, rows or 1)]

    def configs(self, p, dev):
        tiles = max(self.tiles(p)[0], 1)
        least = ceil_div(tiles, max(PART_BYTES // (self.row_bytes(p) * UNIT), 1) * UNIT)
        ways = [Config(chunks=n * least) for n in powers(ceil_div(tiles, UNIT)) if n <= 8]
        return first_then(min(ways, key=lambda config: self.cost(p, dev, config)), ways)

    def transformed(self, p, image: Lifted, pad, to, rows: int, common) -> Launch:
        """The launch that transforms tiles of the image that is read."""
        name = p.op.reads[0]
        args = dict(common, x=p.ptr(name), to=to, rows=rows, channels=image.c, size=image.size[1:], pad=pad,
                    x_n=image.n_step, x_c=image.c_step, x_s=image.steps[1:])
        return Launch(f"conv_winograd_input_{p.operands[name].dtype}_{self.out}_{lanes(image)}", args)

    def least_us(self, p, dev):
        return 2 * arithmetic_us(p, dev) * self.points / (9 * self.out ** 2)


class Winograd(InTiles):
    """F(out x out, 3x3): input transform, product, output transform of each part."""
    correlation: ClassVar = None                 # of a Geometry

    def refuse(self, p, dev):
        image, filters, result = p.operands[p.op.reads[0]], p.w, p.operands[p.op.writes[0]]
        yield from self.wrong(p, dev, "conv/conv_winograd_input.cu")
        if image.rank != 4:
            return
        if not filters.count and result.count:
            yield f"w must have elements; got dims {filters.dims}"
        yield from too_many(f"pixels of {p.op.writes[0]} (n and spatial dims)",
                            result.n * prod(n + self.out for n in result.spatial))
        yield from too_many("elements of a transformed filter", filters.count + 4 * filters.n + 4 * filters.c)

    def seen(self, p) -> Correlation:
        """The problem as a correlation."""
        return type(self).correlation(self.geometry(p))

    def tiled(self, p):
        return self.seen(p).target

    def row_bytes(self, p):
        to = self.seen(p)
        return 4 * self.points * (to.inputs + self._pitch(to))

    def _pitch(self, to: Correlation) -> int:
        """Output channels in whole vectors."""
        return ceil_div(to.outputs, 4) * 4

    @once_per_match
    def _product(self, p, rows: int) -> NestedOp:
        """Tiles by filters, summed over channels, at every point; tiles are innermost where the output's
        pixels are closer than its channels."""
        to, point = self.seen(p), self.points
        inputs, pitch = to.inputs, self._pitch(to)
        across = (pitch, 1) if is_inner(to.target) else (1, rows)
        return at_points(self.products, point, ((rows, inputs), (1, rows)), ((inputs, pitch), (pitch, 1)),
                         ((rows, pitch), across))

    # ---- How and how long ----

    def cost(self, p, dev, config):
        to, rows = self.seen(p), self.rows(p, config.chunks)
        pitch, parts = self._pitch(to), ceil_div(max(self.tiles(p)[0], 1), rows)
        moved, filters = 4 * self.points * rows, 4 * self.points * to.inputs * pitch
        source, target = (p.operands[name].bytes / parts for name in (p.op.reads[0], p.op.writes[0]))
        product = self._product(p, rows).choice(dev)[0] - dev.launch_us if pitch else 0.0
        front = moved_us(source + moved * to.inputs, dev, EFFICIENCY)
        back = moved_us(target + moved * pitch, dev, EFFICIENCY)
        return (moved_us(p.w.bytes + filters, dev, EFFICIENCY / 2)
                + parts * (front + back + dev.launch_us + product))

    # ---- The launches ----

    def plan(self, p, dev, config):
        to = self.seen(p)
        tiles, down, along = self.tiles(p)
        if not (tiles and to.outputs):
            return []
        pitch, point, cuts = self._pitch(to), self.points, self.cuts(p, config.chunks)
        weights = p.scratch(4 * point * to.inputs * pitch)
        front, back = (p.scratch(4 * point * cuts[0][1] * n) for n in (to.inputs, pitch))
        where, steps = dict(zip(AREAS, (front, weights, back))), [self._filters(p, to, weights, pitch)]
        for first, some in cuts:
            common = dict(first=first, tiles=tiles, tiles_w=along, tiles_h=down)
            steps += [self.transformed(p, to.source, to.pad, front, some, common),
                      *placed(self._product(p, some).steps(dev), where),
                      self._output(p, to, back, some, common)]
        return steps

    def _filters(self, p, to, weights, pitch) -> Launch:
        args = dict(w=p.ptr("w", to.start * p.w.dtype.bytes), to=weights, inputs=to.inputs,
                    outputs=to.outputs, row=pitch, w_in=to.taps[0], w_out=to.taps[1], w_r=to.taps[2],
                    w_s=to.taps[3], point=to.inputs * pitch)
        return Launch(f"conv_winograd_filter_{p.w.dtype}_{self.out}", args)

    def _output(self, p, to, back, rows, common) -> Launch:
        name, target, pitch = p.op.writes[0], to.target, self._pitch(to)
        inner, tensor = is_inner(target), p.operands[name]
        steps = (target.n_step, target.c_step, target.steps[1], *tensor.dims[3:])
        vectors = (target.steps[2] == 1 and not any(n % self.out for n in steps)
                   and tensor.alignment >= self.out * tensor.dtype.bytes)
        args = {"from": back}
        args.update(common, y=p.ptr(name), alpha=p.scalar("alpha"), beta=p.scalar("beta"), count=rows * pitch,
                    channels=to.outputs, channel_inner=int(inner), vectors=int(vectors),
                    inner=pitch if inner else rows, size=target.size[1:], y_n=target.n_step,
                    y_c=target.c_step, y_s=target.steps[1:], point=rows * pitch)
        return Launch(f"conv_winograd_output_{tensor.dtype}_{self.out}", args)

    # ---- How far its results may be off ----

    def magnitude(self, op, arrays, scalars, results):
        """The transforms with the absolute values of their matrices, on absolute values: what passes through
        every sum. It reaches over a whole tile, and is up to ``growth`` times the op's own magnitude."""
        image, name = arrays[op.reads[0]], op.writes[0]
        pre, post = (op.spread(f, 2) for f in ("pre_pad", "post_pad"))
        w = arrays["w"] if op.mode == "cross_correlation" else np.flip(arrays["w"], (2, 3))
        if op.writes[0] == op.parts[0]:          # the image comes out: the data gradient
            pre, w = tuple(2 - a for a in pre), np.flip(w, (2, 3)).swapaxes(0, 1)
        return {name: spread(np.abs(image), np.abs(w), pre, results[name].shape, self.out)}


def at_points(products, points: int, *shapes, beta: float = 0.0) -> NestedOp:
    """A product of f32 matrices for every point; ``shapes``: (dims, strides) of a matrix of each operand."""
    descs = [TensorDesc("f32", (points, *dims), (prod(dims), *steps)) for dims, steps in shapes]
    operands = {area: NestedOperand(desc, Pointer(area)) for area, desc in zip(AREAS, descs)}
    return NestedOp(Matmul(compute="f32"), products, dict(beta=beta), **operands)


def lanes(image: Lifted) -> str:
    """What is closest in an image, as kernels are named."""
    return "by_channels" if is_inner(image) else "by_tiles"


def is_inner(image: Lifted) -> bool:
    """Channels are closer than pixels."""
    return image.c > 1 and image.c_step < image.closest_pixel()


def growth(out: int) -> float:
    """How many times larger than the plain sum of absolute values the worst output's may get, where all
    inputs are as large as the largest."""
    b, g, a = (np.abs(np.array(m, float)) for m in MATRICES[out])
    return float(np.einsum("ip,pj,pl->i", a, g, b).max() / 3) ** 2


def spread(x, w, pad, shape, out: int) -> np.ndarray:
    """|A^T| [(|G| w |G^T|) * (|B^T| x |B|)] |A| for every tile of (n, k, p, q) outputs, in float64."""
    b, g, a = (np.abs(np.array(m, float)) for m in MATRICES[out])
    tiles = [ceil_div(n, out) for n in shape[2:]]
    sight = patches(x, pad, tiles, out)
    front = np.einsum("ir,ncxyrs,js->ijncxy", b, sight, b, optimize=True)
    weights = np.einsum("ir,kcrs,js->ijkc", g, w, g, optimize=True)
    back = np.einsum("ijncxy,ijkc->ijnkxy", front, weights, optimize=True)
    y = np.einsum("pi,ijnkxy,qj->nkxpyq", a, back, a, optimize=True)
    y = y.reshape(*shape[:2], tiles[0] * out, tiles[1] * out)
    return y[:, :, :shape[2], :shape[3]]


def patches(x, pad, tiles, out: int) -> np.ndarray:
    """What tiles of outputs see of an image, zeros in its padding: (n, c, down, along, out + 2, out + 2)."""
    need = [n * out + 2 for n in tiles]
    full = np.zeros((*x.shape[:2], *need))
    cut = [(max(p, 0), min(p + i, n)) for p, i, n in zip(pad, x.shape[2:], need)]
    if all(low < high for low, high in cut):
        from_x = tuple(slice(low - p, high - p) for (low, high), p in zip(cut, pad))
        full[(..., *(slice(*c) for c in cut))] = x[(..., *from_x)]
    return np.lib.stride_tricks.sliding_window_view(full, (out + 2, out + 2), (2, 3))[:, :, ::out, ::out]


class ConvFpropWinograd2(Winograd):
    """F(2x2, 3x3): 2.25 times fewer multiplications, as products of 16 matrices in the workspace; the sums
    are as accurate as direct ones. An Inf or NaN spreads over the outputs of the tiles that read
    it."""
    index = 114
    takes = core(ConvFprop)
    v5 = ("WINOGRAD",)
    notes = ("deterministic", "winograd", "winograd_tile_4x4")
    out = 2
    correlation = Correlation.forward


class ConvFpropWinograd4(ConvFpropWinograd2):
    """F(4x4, 3x3): four times fewer multiplications, as products of 36 matrices in the workspace; rounding
    errors are about ten times those of direct sums. An Inf or NaN spreads over the outputs of the tiles that
    read it."""
    index = 115
    notes = ("deterministic", "winograd", "winograd_tile_6x6")
    only_for = ("winograd", "winograd_tile_6x6")
    out = 4


class ConvDgradWinograd2(Winograd):
    """F(2x2, 3x3): 2.25 times fewer multiplications, as products of 16 matrices in the workspace; the sums
    are as accurate as direct ones. An Inf or NaN spreads over the gradients of the tiles that read
    it."""
    index = 134
    takes = core(ConvDgrad)
    v5 = ("ALGO_WINOGRAD",)
    notes = ("deterministic", "winograd", "winograd_tile_4x4")
    out = 2
    correlation = Correlation.backward


class ConvDgradWinograd4(ConvDgradWinograd2):
    """F(4x4, 3x3): four times fewer multiplications, as products of 36 matrices in the workspace; rounding
    errors are about ten times those of direct sums. An Inf or NaN spreads over the gradients of the tiles
    that read it."""
    index = 135
    notes = ("deterministic", "winograd", "winograd_tile_6x6")
    only_for = ("winograd", "winograd_tile_6x6")
    out = 4
