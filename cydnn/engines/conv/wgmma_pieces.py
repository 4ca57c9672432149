"""Convolutions of f16 and bf16 on Hopper's tensor cores whose channels are no whole lines: what a tap leaves
behind its last whole line shares steps with what other taps leave (kernels_src/conv/wgmma_pieces.cuh)."""
from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import ClassVar

from ... import kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, Pointwise
from ...steps import Launch, TensorMap
from ...tensor import TensorDesc
from ..engine import Knob
from ..tile.cost import POWER, TILES
from ..tile.line import CHUNK_BYTES, LINE_BYTES
from ..tile.program import KNOBS, TileProgram
from ..tile.store import along_m
from . import mma
from .dgrad_wgmma import ConvDgradWgmma
from .wgmma import ConvFpropWgmma, ConvWgmma, Windows, begins, in_lines

WIDTHS = 64, 32, 16, 8                           # channels of a piece, by section
PIXELS = 3.9, 1.9, 1.55, 1.4                     # clocks of a row of a piece on its way in through im2col
ASTRAY, ALONE = 1.3, 1.25                        # of them, where rows begin within a sector; where there is
                                                 # no whole line
FILTERS = 1.25, 0.75, 0.5, 0.4                   # the same of the filters' rows
STEP, BOX, OUTSIDE = 150, 170, 7                 # clocks of a step beside, of a box that a warp asks for;
                                                 # what a row outside of w takes, in rows; fitted to an H200
SECTOR = 32                                      # bytes of memory that come together


@dataclass(frozen=True)
class PieceWindows(Windows):
    """The same, with the depth in sections."""

    @property
    def all_taps(self) -> int:
        return prod(self.taps)

    @property
    def pieces(self) -> tuple:
        """How many pieces of each width a tap has; whole lines alone where others would take no less."""
        lines, rest = divmod(self.channels, WIDTHS[0])
        found = [int(rest & width > 0) for width in WIDTHS[1:]]
        if sum(has * clocks for has, clocks in zip(found, PIXELS[1:])) >= PIXELS[0]:
            return lines + 1, *(0 for _ in found)
        return lines, *found

    @property
    def sections(self) -> tuple:
        """(steps, first channel) of each width."""
        at, found = 0, []
        for count, width in zip(self.pieces, WIDTHS):
            found.append((count * ceil_div(self.all_taps, WIDTHS[0] // width), at))
            at += count * width
        return tuple(found)

    def depth(self, line) -> int:
        """Of a product, in steps of whole lines."""
        return line.elements * sum(steps for steps, _ in self.sections)


class ConvWgmmaPieces(ConvWgmma):
    """The base. The filters are read where they lie, or from a copy with the channels innermost that are
    added up, in whole lines."""
    source = "conv/conv_wgmma_pieces.cu"
    knobs = (Knob("tile", tuple(t for t in TILES if kernels.has(f"conv_wgmma_pieces_f16_{t}"))), *KNOBS[1:])
    plain: ClassVar[str]                         # the engine of whole lines

    def is_copied(self, p) -> bool:
        raise NotImplementedError

    def refuse_others(self, p, v, lead, g):
        if v.groups > 1:
            yield f"groups must be 1; got {v.groups}; {self.plain} takes them"
        elif v.channels % WIDTHS[-1]:
            yield (f"channels of {v.image} must be a multiple of {WIDTHS[-1]}; got {v.channels}; "
                   f"{self.plain} takes others")
        elif not any(v.pieces[1:]):
            yield (f"channels of {v.image} must be 8 to 48 more than whole lines of 64; got {v.channels}; "
                   f"{self.plain} takes others")
        else:
            yield from super().refuse_others(p, v, lead, g)

    configs = TileProgram.configs                # filters do not stay

    def cut(self, p, dev, config):
        return TileProgram.cut(self, p, dev, config)

    def copy_us(self, p, dev):
        return mma.copy_us(dev, p.w, WIDTHS[0]) if self.is_copied(p) else 0.0

    def kernel(self, p, tile):
        return f"conv_wgmma_pieces_{p.w.dtype}_{tile}"

    def _model(self, p, g, dev, tile, cast=1):
        """The mean of the steps of all sections."""
        found, t, v = super()._model(p, g, dev, tile, cast), TILES[tile], self.windows(p)
        late = (ASTRAY if begins(p.operands[v.image]) % SECTOR else 1.0) * (
            ALONE if v.channels < WIDTHS[0] else 1.0)
        math = t.m * t.n * found.line.elements / (found.line.macs * t.share * POWER)
        rows, boxes = (each / max(ceil_div(g.n, t.n), 1) for each in brought(g.n, t.n, box_rows(g.n, t.n)))
        clocks = 0.0
        for i, ((steps, _), count) in enumerate(zip(v.sections, v.pieces)):
            pieces = count * v.all_taps / max(steps, 1)      # of a step
            read = pieces * (t.m * late * PIXELS[i] + rows * FILTERS[i])
            issued = ceil_div(pieces, 2) * boxes * BOX                       # by one of two warps
            clocks += steps * (STEP + max(math, read, issued))
        return found._replace(step=clocks / max(sum(steps for steps, _ in v.sections), 1))

    # ---- Launches ----

    def plan(self, p, dev, config):
        v, (lead, g), tile, steps = self.windows(p), self.matrices(p), TILES[config.tile], []
        box, x = box_rows(g.n, tile.n), self._pixels(p, v, tile.m)
        w = self._filters(self.filters(p, dev, steps), self.filters_read(p), v, tile)
        maps = {f"{name}{width}".removesuffix("64"): _narrow(one, width, rest) for width in WIDTHS
                for name, one, rest in (("x", x, x.box[1:]), ("w", w, (box, 1, 1, 1)))}
        boxes, form = self.out(p, config, w)
        counts, starts = zip(*v.sections)
        args = dict(maps, boxes=boxes, **lead.store(p, "y"), alpha=p.scalar("alpha"), m=g.m, n=g.n, k=g.k,
                    y_form=form, y_along_m=along_m(g), y_m=g.c[0], y_n=g.c[1], rank=len(x.dims),
                    ends=tuple(accumulate(counts)), starts=starts, filter_rows=box, **v.args())
        return steps + self.launch(p, dev, config, args, "y")


def brought(n: int, side: int, rows: int) -> tuple[int, int]:
    """What all tiles of ``side`` filters bring in boxes of ``rows``: rows, as if all were in w, and boxes."""
    last = n % side
    return (n + OUTSIDE * (ceil_div(last, rows) * rows - last),
            n // side * ceil_div(side, rows) + ceil_div(last, rows))


@lru_cache(maxsize=4096)
def box_rows(n: int, side: int) -> int:
    """Filters of a box: all where one tile has them, else what takes least."""
    if n <= side:
        return ceil_div(n, 8) * 8

    def clocks(rows):
        read, boxes = brought(n, side, rows)
        return FILTERS[0] * read + BOX * boxes
    return min((rows for rows in range(8, side + 1, 8) if side % rows == 0), key=clocks)


def _narrow(map_, width: int, rest: tuple) -> TensorMap:
    """A map with boxes of so many channels."""
    row = LINE_BYTES * width // WIDTHS[0]
    return replace(map_, box=(width, *rest), swizzle=row if row > CHUNK_BYTES else 0)


def _with_pieces(v: Windows) -> PieceWindows:
    return PieceWindows(**{f.name: getattr(v, f.name) for f in fields(Windows)})


class ConvFpropWgmmaPieces(ConvWgmmaPieces):
    """Forward where channels are no whole lines of 64: TMA brings what a tap has behind its last line in
    pieces of 32, 16 and 8 channels, those of several taps for a step."""
    index = 166
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    plain = "conv_fprop_wgmma"

    @staticmethod
    @once_per_match
    def windows(p):
        return _with_pieces(ConvFpropWgmma.windows(p))

    def is_copied(self, p):
        """Rows that begin within a sector come in at a quarter of the speed."""
        return not in_lines(p.w) or begins(p.w) % SECTOR != 0 and mma.pixel_stride(p.w) is not None

    def filters_read(self, p):
        return mma.packed_desc(p.w, WIDTHS[0]) if self.is_copied(p) else p.w

    def filters(self, p, dev, steps):
        return mma.packed_operand(p, "w", steps, WIDTHS[0]) if self.is_copied(p) else p.ptr("w")


class ConvDgradWgmmaPieces(ConvWgmmaPieces):
    """The data gradient of unit stride where filters are no whole lines of 64: those of dy that a tap has
    behind its last line come in pieces of 32, 16 and 8, those of several taps for a step. w is copied, its
    filters innermost."""
    index = 167
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    plain = "conv_dgrad_wgmma"

    def refuse(self, p, dev):
        stride = mma.geometry(p).stride
        if set(stride) != {1}:
            yield f"stride must be 1; got {stride}; {self.plain} takes others"
        elif mma.pixel_stride(p.w) is None:
            yield from mma.no_pixel_stride("w", p.w)
        else:
            yield from super().refuse(p, dev)

    @staticmethod
    @once_per_match
    def windows(p):
        return replace(_with_pieces(ConvDgradWgmma.windows(p)), major="bk")

    def is_copied(self, p):
        return True

    def filters_read(self, p):
        d, whole = p.w, mma.padded(p.w.n, WIDTHS[0])
        taps = TensorDesc.packed(d.dtype, (d.c, whole, *d.spatial), "nhwc").strides[2:]
        strides = (whole, 1, *(s // whole * d.c * whole for s in taps))
        return TensorDesc(d.dtype, (d.c, d.n, *d.spatial), strides)

    def filters(self, p, dev, steps):
        d, whole = p.w, mma.padded(p.w.n, WIDTHS[0])
        copy = p.scratch(prod(d.spatial) * d.c * whole * d.dtype.bytes)
        args = {"from": p.ptr("w"), "to": copy, "images": prod(d.spatial), "channels": d.n, "pixels": d.c,
                "padded": whole, "image_stride": mma.pixel_stride(d), "channel_stride": d.strides[0],
                "pixel_stride": d.strides[1] if d.c > 1 else 1, "pixel_tiles": ceil_div(d.c, 64)}
        steps.append(Launch(f"conv_mma_pack_{d.dtype}", args))
        return copy
