"""Data gradient of few channels, of first layers: f16 and bf16, TMA and wgmma."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, Pointwise
from ...steps import Launch
from ...tensor import TensorDesc
from ..engine import Config, Engine, Knob, first_then, no_elements, together
from ..tile.line import line_of
from ..tile.maps import tiled_map
from ..tile.matrices import too_many
from ..tile.program import TileProgram
from . import mma
from .view import behind_image
from .wgmma import in_lines

WIDE, WORKERS, COLUMNS = 64, 4, 64               # pixels at once, warpgroups of a block; of a product
ROWS = (1, 2, 4, 8)                              # blocks of columns, one for each row of a window
PARTS = 12                                       # of the filters that fit: a tap along w, 64 of the depth
APART, TALLEST = 8, 255                          # most blocks that read a row of dy; most stride of height
PRODUCT, STORE = 620, 84                         # clocks: four products 64 deep; four times a pair of columns
SINGLES, START_US, MEMORY = 7, 8.5, 0.85        # of columns that leave alone; filters, first rows; bandwidth


@dataclass(frozen=True)
class Union:
    """Geometry that all classes of pixels share, along h and w. Pixel ``stride * i + a`` of dx reads dy from
    ``i + first`` on, ``window`` pixels. A channel's column: ``a * pitch + b * c + channel``; ``rows``: blocks
    of columns, 0 where they do not fit. ``each`` residues along h are columns of a block of threads, and
    others of ``apart - 1`` others."""
    out: tuple                                   # pixels of the largest class
    first: tuple
    window: tuple
    pitch: int
    rows: int
    each: int
    apart: int

    @classmethod
    def of(cls, g: mma.MmaGeometry) -> "Union":
        dims = list(zip(g.size, g.taps, g.pad, g.stride, g.dilation))[1:]
        first, window = zip(*(_met(*dim) for dim in dims))
        across, tall = g.stride[2] * g.c, g.stride[1]
        least = next((r for r in ROWS if r >= window[0]), 0)
        fits = lambda apart: ceil_div(tall, apart) * across <= COLUMNS // least
        apart = next((n for n in range(1, APART + 1) if least and fits(n)), 0)
        each = ceil_div(tall, max(apart, 1))
        even = ceil_div(across, 8) * 8           # so that a row of dx begins with a lane
        pitch = even if apart and each * even <= COLUMNS // least else across
        return cls(tuple(ceil_div(d[0], d[3]) for d in dims), first, window, pitch, least if apart else 0,
                   each, ceil_div(tall, each))


def _met(size, taps, pad, stride, dilation) -> tuple[int, int]:
    """(first, count) of the pixels of dy that those of dx meet, from their number in the class on. Of each
    class the first and the last tap count, which are among the first and the last ``stride`` ones."""
    ends = {*range(min(taps, stride)), *range(max(taps - stride, 0), taps)}
    found = [(a + pad - r * dilation) // stride for a in range(min(stride, size)) for r in ends
             if (a + pad - r * dilation) % stride == 0]
    return (min(found), max(found) - min(found) + 1) if found else (0, 1)


class ConvDgradFew(Engine):
    """All pixels that share a place in dy, and their channels, are columns of one product: dy is read once,
    row after row, and each row adds to the rows of dx that it meets, whose sums stay in registers."""
    index = 138
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    knobs = (Knob("splits", lo=1, hi=2 ** 20),)  # of the rows
    notes = ("deterministic", "tensor_core")

    def refuse(self, p, dev):
        wrong = list(self._wrong(p, dev))
        yield from wrong
        if wrong:
            return
        g = mma.geometry(p)
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.dy.dtype} tensors; got {p.op.compute}"
        if g.groups > 1:
            yield f"groups must be 1; got {g.groups}"
        if p.dy.alignment < 16:
            yield f"dy must be aligned to 16 bytes; got {p.dy.alignment}"
        if not in_lines(p.dy):
            yield from mma.no_pixel_stride("dy", p.dy)
        yield from self.refuse_sizes(p, g)
        yield from fusion.reasons(self.tail(p))

    @staticmethod
    def _wrong(p, dev):
        """The reasons with which nothing else is asked."""
        yield from TileProgram.wrong(p, dev, "conv/conv_dgrad_few.cu")
        yield from no_elements(p.operands)
        if p.dx.rank > 4:
            yield f"dx must have at most 2 spatial dims; got {p.dx.rank - 2}"

    def refuse_sizes(self, p, g):
        if prod(g.taps) * prod(g.stride) == 1:
            yield "w has one tap and the strides are 1: a product without windows; conv_dgrad_wgmma takes it"
        if g.c * g.stride[2] > COLUMNS or g.stride[1] > TALLEST:
            yield (f"c * stride of the width must be at most {COLUMNS}, and the stride of the height "
                   f"{TALLEST}; got {g.c} * {g.stride[2]}, and {g.stride[1]}")
            return
        u = self.union(p)
        if not u.rows:
            yield (f"c * stride of the width * ceil(stride of the height / {APART}) * rows of dy that a "
                   f"pixel meets (to the next power of 2) must be at most {COLUMNS}; got {g.c} * "
                   f"{g.stride[2]} * {ceil_div(g.stride[1], APART)} * {u.window[0]}")
        line = line_of(p).elements
        if (parts := u.window[1] * ceil_div(g.k, line)) > PARTS:
            yield (f"pixels of a row of dy that a pixel meets * ceil(k / {line}) must be at most "
                   f"{PARTS}; got {parts}")
        else:
            yield from (f"dy: {reason}" for reason in kernels.map_reasons(self.pixels(p, u, p.ptr("dy"))))
        yield from too_many("pixels of dx", g.n * prod(g.size))

    @staticmethod
    @once_per_match
    def union(p) -> Union:
        return Union.of(mma.geometry(p))

    @staticmethod
    def lead(p):
        return p.lead(p.dy.dtype.name)

    def tail(self, p):
        return behind_image(p, p.dy.dtype.name)

    def in_pairs(self, p, g) -> bool:
        return self.tail(p) is None and leaves_in_pairs(g, self.lead(p).tensor)

    @staticmethod
    def read(p) -> TensorDesc:
        """dy as the kernel reads it: where it lies, or a copy with channels innermost, in whole 16 bytes."""
        return p.dy if in_lines(p.dy) else mma.packed_desc(p.dy)

    def pixels(self, p, u, pointer):
        """The map of dy: pixels of a row, and those that the window adds."""
        d = self.read(p)
        size, gaps = (*d.spatial[::-1], 1)[:2], (*d.strides[:1:-1], 0)[:2]
        return tiled_map(pointer, d, (d.c, *size, d.n, 1), (*gaps, d.strides[0], 0),
                         WIDE + u.window[1] - 1, 1, 1, 1)

    # ---- Choice ----

    def configs(self, p, dev):
        """Strips of rows that are as many as workers, or more where that evens them out."""
        u = self.union(p)
        columns = p.dx.n * ceil_div(u.out[1], WIDE) * u.apart
        fitting = {max(WORKERS * dev.sms * turns // columns, 1) for turns in (1, 2, 3, 4)} | {1}
        every = sorted({ceil_div(u.out[0], ceil_div(u.out[0], min(n, u.out[0]))) for n in fitting})
        every = [Config(splits=n) for n in every]
        return first_then(min(every, key=lambda config: self.cost(p, dev, config)), every)

    def cost(self, p, dev, config):
        g, u, line = mma.geometry(p), self.union(p), line_of(p)
        strip = ceil_div(u.out[0], config.splits)
        items = g.n * ceil_div(u.out[1], WIDE) * ceil_div(u.out[0], strip)
        stores = STORE * 16 // u.rows * (1 if self.in_pairs(p, g) else SINGLES)
        each = PRODUCT * u.window[1] * ceil_div(g.k, line.elements) + stores
        rows = ceil_div(items, WORKERS * (dev.sms // u.apart)) * (strip + u.window[0] - 1)
        busy = rows * each / dev.clock_mhz
        moved = line.bytes * (p.dx.count + p.dy.count * (strip + u.window[0] - 1) / strip)
        memory = moved / (MEMORY * dev.bandwidth_gbs) * 1e-3
        copied = 0.0 if in_lines(p.dy) else mma.copies_us(p, dev, "dy")
        return dev.launch_us + copied + START_US + together(8, busy, memory)

    # ---- Launch ----

    def plan(self, p, dev, config):
        g, u, lead, steps = mma.geometry(p), self.union(p), self.lead(p), []
        dy = p.ptr("dy") if in_lines(p.dy) else mma.packed_operand(p, "dy", steps)
        strip, tiles = ceil_div(u.out[0], config.splits), ceil_div(u.out[1], WIDE)
        strips = ceil_div(u.out[0], strip)
        two = lambda strides: (strides[0], strides[1], *(0, 0, *strides[2:])[-2:])
        args = dict(dy=self.pixels(p, u, dy), w=p.ptr("w"), **lead.store(p), alpha=p.scalar("alpha"),
                    items=g.n * tiles * strips, tiles=tiles, strips=strips, strip=strip,
                    chunks=ceil_div(g.k, line_of(p).elements), k=g.k, c=g.c, pitch=u.pitch,
                    is_flipped=int(g.is_flipped), in_pairs=int(self.in_pairs(p, g)), apart=u.apart,
                    each=u.each, out=u.out, window=u.window, first=u.first, stride=g.stride[1:],
                    size=g.size[1:], pad=g.pad[1:], dilation=g.dilation[1:], taps=g.taps[1:],
                    w_s=two(p.w.strides), dx_s=two(lead.tensor.strides))
        blocks = min(ceil_div(args["items"], WORKERS), dev.sms // u.apart) * u.apart
        return [*steps, Launch(f"conv_dgrad_few_{p.w.dtype}_r{u.rows}", args, dict(blocks=blocks),
                       fusion.at("epilogue", self.tail(p)))]

    # ---- Errors ----

    def magnitude(self, op, arrays, scalars, results):
        """The op's, but for pixels that multiply what is no number by zero: of every window that has it."""
        found = op.magnitude(arrays, scalars, results)
        pads, _, strides, dilations = op.geometry(found["dx"].ndim)
        dims = zip(found["dx"].shape[2:], arrays["w"].shape[2:], pads, strides, dilations)
        reached = ~np.isfinite(arrays["dy"]).all(1, keepdims=True)
        for axis, (size, taps, pad, stride, dilation) in enumerate(dims, 2):
            first, window = _met(size, taps, pad, stride, dilation)
            at = (np.arange(size) // stride + first)[:, None] + np.arange(window)
            pixels = reached.shape[axis]
            inside = ((at >= 0) & (at < pixels)).reshape(*at.shape, *(1,) * (reached.ndim - axis - 1))
            reached = (reached.take(at.clip(0, pixels - 1), axis) & inside).any(axis + 1)
        return {"dx": np.where(reached, np.nan, found["dx"])}


def leaves_in_pairs(g: mma.MmaGeometry, dx) -> bool:
    """Every two columns are neighbours in dx, at a whole 4 bytes, and inside or outside together; so are all
    rows."""
    width = dx.strides[-1]
    joins = (dx.strides[1] == 1 or g.c == 1) and (g.stride[2] == 1 or width == g.c)
    even = not any(x % 2 for x in (g.stride[2] * g.c, g.stride[2] * width, *dx.strides[2:-1], dx.strides[0]))
    whole = not any(n % s for n, s in zip(g.size, g.stride))
    near = sum(a * abs(b) for a, b in zip(g.stride[1:], (0, *dx.strides[2:])[-2:])) < 2 ** 31
    return joins and even and whole and near and dx.alignment % 4 == 0
