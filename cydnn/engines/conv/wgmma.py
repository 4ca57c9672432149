"""Convolutions of f16 and bf16 on Hopper's tensor cores (TMA im2col and wgmma): shared form and forward."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import ClassVar

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...kernels.tensor_map import OFFSETS
from ...ops import ConvFprop, Pointwise
from ...steps import Pointer, TensorMap
from ...tensor import TensorDesc
from ..engine import Knob, first_then, no_elements
from ..tile import cost as model, sums
from ..tile.cost import TILES
from ..tile.line import CHUNK_BYTES, LINE_BYTES, LINES, Line, line_of
from ..tile.maps import tiled_map
from ..tile.matrices import Matrices, size_refusals
from ..tile.program import KNOBS, TileProgram
from ..tile.split_k import DepthSplit
from ..tile.store import along_m, is_whole, raggedness
from . import mma, resident
from .neighbours import reached
from .view import behind_image

APART = 1.0, 1.45, 2.2                           # of what is moved, by raggedness; fitted to an H200
LATE = {16: 0.557, 32: 0.34, 64: 0.33}           # of a row's way in, by what divides its address; H200
LATE_FILTERS = 0.85                              # the same of 16, where the columns are filters


@dataclass(frozen=True)
class Windows:
    """Tap t of output pixel o reads pixel o * stride + first + t * dilation of the operand ``image``, in d, h
    and w. ``channels`` of a group are read, ``columns`` written; ``major`` as in the kernel's contract."""
    image: str
    size: tuple                                  # of the image
    out: tuple
    taps: tuple
    stride: tuple
    first: tuple
    dilation: tuple
    channels: int
    columns: int
    groups: int
    is_flipped: bool
    major: str = ""
    reached: ClassVar[str] = "(size - 1) * dilation"     # what ``reach`` is called
    classes: ClassVar[int] = 1                   # of pixels, each with windows of its own

    @property
    def reach(self) -> tuple:
        """The offset of the last tap."""
        return tuple((r - 1) * d for r, d in zip(self.taps, self.dilation))

    def depth(self, line: Line) -> int:
        """Of a product; each tap is whole lines deep."""
        return line.elements * prod(self.taps) * ceil_div(self.channels, line.elements)

    def args(self) -> dict:
        """Of the kernels that walk them."""
        return dict(channels=self.channels, is_flipped=int(self.is_flipped), out=self.out, taps=self.taps,
                    stride=self.stride, first=self.first, dilation=self.dilation)


class WindowProgram(TileProgram):
    """The base: an image that TMA reads through windows."""
    source: ClassVar[str]                        # of the kernel
    late: ClassVar[dict] = LATE

    @staticmethod
    def windows(p) -> Windows:
        raise NotImplementedError

    def lines(self, p) -> tuple:
        """What TMA reads lines of channels of: for the rows of the product, for its columns."""
        raise NotImplementedError

    def _model(self, p, g, dev, tile, cast=1):
        """Rows that begin within a line of memory come in later."""
        found, t = super()._model(p, g, dev, tile, cast), TILES[tile]
        of_rows, of_columns = (1 + self.late.get(begins(d), 0.0) + model.OUTSIDE * model.outside(size, side)
                               for d, size, side in zip(self.lines(p), (g.m, g.n), (t.m, t.n)))
        read = (t.m * of_rows + t.n * of_columns) * LINE_BYTES / model.INTAKE
        return found._replace(step=max(found.step, read))

    def refuse(self, p, dev):
        wrong = [*self.wrong(p, dev, self.source), *no_elements(p.operands)]
        yield from wrong
        if wrong:
            return
        v, (lead, g) = self.windows(p), self.matrices(p)
        tensor, rank = p.operands[v.image], max(p.operands[v.image].rank, 4)
        if p.op.math != "f32":
            yield f"compute must be f32 for {tensor.dtype} tensors; got {p.op.compute}"
        yield from size_refusals(g)
        if max(v.reach) > OFFSETS[rank]:
            yield (f"{v.reached} of {p.op.parts[1]} must be at most {OFFSETS[rank]} in "
                   f"{rank - 2} dims; got {v.reach}")
        for name in p.op.reads:
            if p.operands[name].alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {p.operands[name].alignment}"
        if in_lines(tensor):
            found = self._pixels(p, v, TILES["128x256"].m)
            yield from (f"{v.image}: {reason}" for reason in kernels.map_reasons(found))
        else:
            yield from not_in_lines(v.image, tensor)
        yield from self.refuse_others(p, v, lead, g)
        if p.last:
            yield from sums.reasons(p, g, 1, dev)
        yield from fusion.reasons(self.tail(p))

    def refuse_others(self, p, v, lead, g):
        """Reasons of the other operands."""
        raise NotImplementedError

    @staticmethod
    def _pixels(p, v, side) -> TensorMap:
        """The map of the image: base pixels through the windows, in boxes of ``side``. Width first, and a
        height even in one dim."""
        d = p.operands[v.image]
        count = max(d.rank - 2, 2)
        size, out, stride, first = (values[::-1][:count] for values in (v.size, v.out, v.stride, v.first))
        upper = tuple((q - 1) * s + a - (n - 1) for n, q, s, a in zip(size, out, stride, first))
        gaps = (*d.strides[:1:-1], 0)[:count]
        found = tiled_map(p.ptr(v.image), d, (d.c, *size, d.n), (*gaps, d.strides[0]), side)
        return replace(found, steps=(1, *stride, 1), corners=(first, upper))

    @staticmethod
    def touched(p, v) -> int:
        """Elements of the image that the windows meet."""
        d = p.operands[v.image]
        return d.n * d.c * prod(min(n, q * r) for n, q, r in zip(v.size, v.out, v.taps))


class ConvWgmma(WindowProgram):
    """From one image to another. Channels are innermost; deep sums are split and added in order."""
    source = "conv/conv_wgmma.cu"
    late = {**LATE, CHUNK_BYTES: LATE_FILTERS}
    knobs = (Knob("tile", tuple(TILES)), *KNOBS[1:], Knob("resident", tuple(resident.SHARE)))

    def refuse_others(self, p, v, lead, g):
        unit = _chunk(p.w) if v.major == "bk" else line_of(p).elements
        if v.groups > 1 and v.channels % unit:
            yield (f"channels of {v.image} in a group must be a multiple of {unit}; "
                   f"got {v.channels} in {v.groups} groups")
        if pixel_step(lead.tensor) is None:
            yield f"{p.op.writes[0]} must have its pixels at one distance; got strides {lead.tensor.strides}"
        if not in_lines(p.w) and mma.pixel_stride(p.w) is None:
            yield from mma.no_pixel_stride("w", p.w)
        else:
            filters = self._filters(p.ptr("w"), self.filters_read(p), v, TILES["128x256"])
            yield from (f"w: {reason}" for reason in kernels.map_reasons(filters))

    @once_per_match
    def matrices(self, p):
        """(lead, the product of im2col(image) and the filters, one for each group and class)."""
        v = self.windows(p)
        lead = p.lead(p.operands[v.image].dtype.name)
        pixels = lead.tensor.n * prod(v.out)
        channel = lead.tensor.strides[1] if lead.tensor.c > 1 else 0
        still, none = (v.groups, v.classes, 1, 1, 1, 1), (0,) * 6
        own = (v.columns * channel if v.groups > 1 else 0, *none[1:])
        return lead, Matrices(pixels, v.columns, v.depth(line_of(p)), (0, 0), (0, 0),
                              (pixel_step(lead.tensor) or 0, channel), still, none, none, own, ())

    def is_one_sum(self, p, g):
        return g.count > 1 or super().is_one_sum(p, g)       # the sum counts channels of one group

    def tail(self, p):
        lead, g = self.matrices(p)
        kind = p.operands[p.op.reads[0]].dtype.name
        return behind_image(p, kind, 8 if is_whole(g, lead.tensor) else 1)

    def lines(self, p):
        return p.operands[self.windows(p).image], self.filters_read(p)

    def magnitude(self, op, arrays, scalars, results):
        """The op's, but where lines of a group hold what is no number of the next one."""
        found, image = op.magnitude(arrays, scalars, results), op.parts[0]
        groups = (results if image in op.writes else arrays)[image].shape[1] // arrays["w"].shape[1]
        return found if groups == 1 else reached(op, arrays, scalars, found, groups, LINES["f16"].elements)

    # ---- Filters ----

    def filters_read(self, p) -> TensorDesc:
        """w as the kernel reads it: where it lies, or a copy with channels innermost, in whole 16 bytes."""
        return p.w if in_lines(p.w) else mma.packed_desc(p.w)

    def filters(self, p, dev, steps: list) -> Pointer:
        """Where that lies; a copy becomes one of the steps."""
        return p.ptr("w") if in_lines(p.w) else mma.packed_operand(p, "w", steps)

    @staticmethod
    def _filters(pointer, w, v, tile) -> TensorMap:
        """The map of w: channels, filters, then the taps."""
        dims, strides = (w.c, w.n, *v.taps[::-1]), (w.strides[0], *w.strides[:1:-1], 0, 0)[:4]
        side = tile.n if v.major == "bk" else LINES[w.dtype.name].elements
        return tiled_map(pointer, w, dims, strides, side, 1, 1, 1)

    def _model(self, p, g, dev, tile, cast=1):
        """Rows that leave in several boxes meet in lines of memory."""
        found = super()._model(p, g, dev, tile, cast)
        several = g.n > found.line.elements
        apart = APART[raggedness(g.n, g.c[0], found.line)] if several else 1.0
        return found._replace(moved_bytes=apart * found.moved_bytes)

    def moved_bytes(self, p, g):
        return line_of(p).bytes * (self.touched(p, self.windows(p)) + p.w.count + g.count * g.m * g.n)

    # ---- Launches ----

    def kernel(self, p, tile):
        return f"conv_wgmma_{p.w.dtype}_{tile}_{self.windows(p).major}"

    def copy_us(self, p, dev) -> float:
        """Of a copy of the filters, where there is one."""
        return 0.0 if in_lines(p.w) else mma.copies_us(p, dev, "w")

    def cost(self, p, dev, config):
        return self.copy_us(p, dev) + super().cost(p, dev, config)

    def cut(self, p, dev, config):
        if config.get("resident"):               # nothing is split
            return DepthSplit(resident.us(self, p, dev, config), "", 1, self.matrices(p)[1].k)
        return super().cut(p, dev, config)

    def configs(self, p, dev):
        usual, stay = list(super().configs(p, dev)), resident.configs(self, p, dev)
        best = min((usual[0], *stay), key=lambda config: self.cost(p, dev, config))
        yield from first_then(best, usual + stay)

    def operands(self, p, v, dev, tile, steps) -> tuple:
        """The maps of the image and of w, or of its copy, which becomes one of the steps."""
        filters = self._filters(self.filters(p, dev, steps), self.filters_read(p), v, tile)
        return self._pixels(p, v, tile.m), filters

    def plan(self, p, dev, config):
        if config.get("resident"):
            return resident.launches(self, p, dev, config)
        v, (lead, g), tile, steps = self.windows(p), self.matrices(p), TILES[config.tile], []
        x, w = self.operands(p, v, dev, tile, steps)
        boxes, form = self.out(p, config, w)
        args = dict(x=x, w=w, boxes=boxes, **lead.store(p, "y"), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k,
                    y_form=form, y_along_m=along_m(g), y_m=g.c[0], y_n=g.c[1],
                    rank=len(x.dims), **v.args())
        return steps + self.launch(p, dev, config, args, "y")


def _outer(d):
    """(size, stride) of all dims but the channels."""
    return [(n, s) for axis, (n, s) in enumerate(zip(d.dims, d.strides)) if axis != 1]


def _chunk(d) -> int:
    return CHUNK_BYTES // d.dtype.bytes


def begins(d) -> int:
    """Bytes that divide where rows of channels begin; a whole line at most."""
    return gcd(LINE_BYTES, *(s * d.dtype.bytes for n, s in _outer(d) if n > 1))


def in_lines(d) -> bool:
    """TMA can read it: contiguous channels, and all else at whole 16 bytes."""
    return (d.strides[1] == 1 or d.c == 1) and not any(s % _chunk(d) for n, s in _outer(d) if n > 1)


def not_in_lines(name: str, d):
    yield (f"{name} must have contiguous channels, and other strides that are multiples of {_chunk(d)} (16 "
           f"bytes); got strides {d.strides}")


def image_map(p, name: str, width: int, height: int):
    """The map of an image: channels, w, h, d, n."""
    d = p.operands[name]
    fill = 5 - d.rank
    dims = (d.c, *d.spatial[::-1], *(1,) * fill, d.n)
    strides = (*d.strides[:1:-1], *(0,) * fill, d.strides[0])
    return tiled_map(p.ptr(name), d, dims, strides, width, height, 1, 1)


def pixel_step(d) -> int | None:
    """Elements from a pixel to the next, through all images; 0 where there is one, None where distances
    differ."""
    return mma.joined(_outer(d), alone=0)


class ConvFpropWgmma(ConvWgmma):
    """TMA brings the pixels of a tap and 64 channels, wgmma multiplies them with the filters, sums in f32;
    blocks stay and take tile after tile. Channels are innermost; deep sums are split and added in order.
    resident=128|64: the filters of so many channels of y stay in shared memory, and four warpgroups take rows
    each by itself; of depths of up to 512 or 1024."""
    index = 117
    takes = core(ConvFprop, behind=many(Pointwise), last=sums.LAST)
    v5 = ("IMPLICIT_PRECOMP_GEMM",)

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        return Windows("x", g.size, g.out, g.taps, g.stride, tuple(-a for a in g.pad), g.dilation, g.c, g.k,
                       g.groups, g.is_flipped, "bk")
