"""Gradient of a first layer's filter, f16 and bf16: few channels, overlapping windows, wgmma."""
from __future__ import annotations

from math import prod
from typing import NamedTuple

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvWgrad, Pointwise
from ...steps import Launch
from ..engine import Config, Engine, Knob, first_then, no_elements, powers, together
from ..tile.line import GROUP_ROWS, line_of
from ..tile.maps import tiled_map
from ..tile.matrices import MOST
from ..tile.program import TileProgram
from ..tile.split_k import PART_BYTES
from . import mma
from .wgmma import in_lines, not_in_lines
from .wgrad_mma import WgradMma, ordered_sum

CHUNK = 8                                        # elements of 16 bytes
LANES = (2, 4, 8)                                # elements of a pixel in shared memory
STEPS = (1, 2, 4)                                # chunks from a window to the next
STRIPS, STAGES = (112, 64, 32, 16), 8            # pixels of a strip; strips of dy on their way
STRIP = 32                                       # pixels in whose time a strip begins and ends
START, START_EACH = 10000, 30                    # clocks of a block: the first lines; a sum of a filter
STRIP_CLOCKS, PRODUCT = 380, 13                  # of a strip; of a product of 16 pixels beside the others
BATCH, FULL, BUSY, MORE = 256, 4, 230, 110       # pairs a warp asks for; clocks of the first, of others
LEAST, MATH, INTAKE = 28, 0.9, 36                # clocks of a product; of the rate; bytes of dy a clock
SUM_US = 1.7                                     # of an ordered sum, beside its launch


class FirstTile(NamedTuple):
    """Products of a block: elements of windows in each, and how many."""
    n: int
    v: int


TILES = {f"{n}x{v}": FirstTile(n, v) for n, v in ((56, 4), (40, 5), (32, 2), (24, 3))}


class FirstForm(NamedTuple):
    """The configuration of the kernel for a problem and a tile."""
    lanes: int
    step: int
    down: bool                                   # eights of n are filter rows
    strip: int
    pieces: int                                  # strips of a row
    places: int
    tile_taps: int                               # filter rows of a tile
    row_tiles: int
    col_tiles: int
    ring: int
    stages: int


def lanes_of(channels: int, stride: int) -> int | None:
    """The fewest elements of a pixel with which windows begin at whole chunks."""
    return next((n for n in LANES if n >= channels and n * stride in [CHUNK * s for s in STEPS]), None)


def way(g: mma.MmaGeometry, tile: FirstTile, step: int, chunks: int):
    """(down, filter rows of a tile, their tiles, tiles of columns, places behind a strip): the way with fewer
    tiles, then with fewer lines."""
    r, rows = g.taps[1], tile.n // CHUNK
    found = [(True, rows, ceil_div(r, rows), ceil_div(chunks, tile.v), ceil_div(tile.v, step) - 1)]
    if tile.v >= step:
        tiles = ceil_div(r, tile.v // step)
        found.append((False, ceil_div(r, tiles), tiles, ceil_div(chunks, rows * step), rows - 1))
    return min(found, key=lambda each: (each[2] * each[3], each[1]))


def shape(g: mma.MmaGeometry, tile: FirstTile, needs, room: int) -> FirstForm | None:
    """None where it does not fit into so many bytes of shared memory; ``needs``: what the kernel takes."""
    lanes, (_, rows, out) = lanes_of(g.c, g.stride[2]), g.out
    step = lanes * g.stride[2] // CHUNK
    down, taps, row_tiles, col_tiles, behind = way(g, tile, step, ceil_div(g.taps[2] * lanes, CHUNK))
    span = (taps - 1) * g.dilation[1] + 1
    fresh = min(g.stride[1], span)
    for strip in sorted(STRIPS, key=lambda strip: ceil_div(out, strip) * (strip + STRIP)):
        places = strip + behind | 1              # odd: lines begin in different banks
        for stages in range(STAGES, 1, -1):
            again = ceil_div(stages - 1, rows)   # times that a row begins anew
            ring = span + again * span + max(stages - 1 - again, 0) * fresh if stages > 2 else span
            if needs(stages=stages, strip=strip, ring=ring, tile_taps=taps, dilation=g.dilation[1], step=step,
                     places=places) <= room:
                return FirstForm(lanes, step, down, strip, ceil_div(out, strip), places, taps, row_tiles,
                            col_tiles, ring, stages)
    return None


class ConvWgradFirst(Engine):
    """dw[k, taps and channels] = dy[pixels, k]^T @ windows of x, of few channels: lines of x lie in shared
    memory, where wgmma reads overlapping windows. The pixels are split, and their sums added in order."""
    index = 158
    takes = core(ConvWgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    knobs = (Knob("tile", tuple(TILES)), Knob("splits", lo=1, hi=2 ** 20))
    notes = ("deterministic", "tensor_core")
    source = "conv/conv_first_wgrad.cu"

    def refuse(self, p, dev):
        wrong = list(self._wrong(p, dev))
        yield from wrong
        if wrong:
            return
        g = mma.geometry(p)
        if not self._forms(p, dev):
            yield f"lines of x for a row of dy must fit into shared memory; got dilation {g.dilation[1]}"
        if p.dy.alignment < 16:
            yield f"dy must be aligned to 16 bytes; got {p.dy.alignment}"
        if in_lines(p.dy):
            yield from (f"dy: {reason}" for reason in kernels.map_reasons(self._gradients(p, g, 16)))
        else:
            yield from not_in_lines("dy", p.dy)
        count, sums = p.dy.n * prod(g.out), self._sums(g)
        for name, size in (("pixels of dy", count), ("elements of dw, channels padded,", sums),
                           ("the stride of the width of x", abs(p.x.strides[-1]))):
            if size > MOST:
                yield f"{name} must be at most {MOST}; got {size}"
        yield from fusion.reasons(WgradMma._tail(p)[1])

    def _wrong(self, p, dev):
        """The reasons with which nothing else is asked."""
        yield from TileProgram.wrong(p, dev, self.source)
        yield from no_elements(p.operands)
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.x.dtype} tensors; got {p.op.compute}"
        if p.x.rank > 4:
            yield f"x must have one or two spatial dims; got {p.x.rank - 2}"
            return
        g = mma.geometry(p)
        if g.groups > 1:
            yield f"groups must be 1; got {g.groups}"
        elif g.c > LANES[-1]:
            yield f"channels of x must be at most {LANES[-1]}; got {g.c}"
        elif lanes_of(g.c, g.stride[2]) is None:
            yield f"stride of the width must be 1, 2 or 4, or 8 for at most 4 channels; got {g.stride[2]}"
        if g.dilation[2] > 1 and g.taps[2] > 1:
            yield f"dilation of the width must be 1; got {g.dilation[2]}"
        if g.c > 1 and p.x.strides[1] != 1:
            yield f"x must have contiguous channels; got strides {p.x.strides}"

    @staticmethod
    def _forms(p, dev) -> dict:
        return _forms(p, dev.smem_bytes)

    @staticmethod
    def _gradients(p, g, strip):
        """The map of dy: filters, width, height, images."""
        (_, rows, out), d = g.out, p.dy
        high = d.strides[2] if d.rank == 4 else 0
        return tiled_map(p.ptr("dy"), d, (g.k, out, rows, d.n, 1), (d.strides[-1], high, d.strides[0], 0),
                         strip, 1, 1, 1)

    @staticmethod
    def _sums(g) -> int:
        """Elements of a part."""
        return g.k * prod(g.taps) * max(lanes_of(g.c, g.stride[2]), 4)

    # ---- Choice ----

    def _most(self, p, form) -> int:
        """Splits: each has a strip, and there is room for their sums."""
        g = mma.geometry(p)
        return max(1, min(p.dy.n * form.pieces * g.out[1], PART_BYTES // (4 * self._sums(g))))

    def configs(self, p, dev):
        g, forms, found = mma.geometry(p), self._forms(p, dev), []
        for name, form in forms.items():
            tiles, most = self._tiles(g, form), self._most(p, form)
            for waves in (0.125, 0.25, 0.5, 1):
                wish = min(max(int(dev.sms * waves) // tiles, 1), most)
                found.append(Config(tile=name, splits=wish))
        best = min(found, key=lambda config: self.cost(p, dev, config))
        others = (Config(tile=name, splits=n) for name, form in forms.items()
                  for n in powers(min(self._most(p, form), 2 * dev.sms)))
        return first_then(best, [*dict.fromkeys([*found, *others])])

    @staticmethod
    def _tiles(g, form) -> int:
        return ceil_div(g.k, GROUP_ROWS) * form.row_tiles * form.col_tiles

    def _splits(self, p, form, config) -> int:
        return min(config.splits, self._most(p, form))

    def cost(self, p, dev, config):
        g, forms, tile, line = mma.geometry(p), self._forms(p, dev), TILES[config.tile], line_of(p)
        if config.tile not in forms:
            return float("inf")
        form = forms[config.tile]
        splits = self._splits(p, form, config)
        strips = ceil_div(p.dy.n * form.pieces * g.out[1], splits)
        waves = ceil_div(self._tiles(g, form) * splits, dev.sms)
        math = form.strip / line.k * max(tile.n / 2, LEAST) * tile.v / MATH
        taken = form.strip * line.bytes * min(g.k, line.elements) / INTAKE
        each = max(math, taken, self._strip_clocks(g, form, tile, line))
        busy = waves * (START + START_EACH * tile.n * tile.v + strips * each) / dev.clock_mhz
        moved = line.bytes * (p.x.count + p.dy.count) / (0.85 * dev.bandwidth_gbs) * 1e-3
        added = 8 * splits * self._sums(g) / dev.bandwidth_gbs * 1e-3
        return 2 * dev.launch_us + together(3, busy, moved) + SUM_US + added

    @staticmethod
    def _strip_clocks(g, form, tile, line) -> float:
        """What a strip takes where its lines are on the way: fitted to an H200."""
        span = (form.tile_taps - 1) * g.dilation[1] + 1
        lines = min(g.stride[1], span) + max(span - g.stride[1], 0) / g.out[1]
        batches = lines * ceil_div(form.places * form.step * 4, BATCH)
        return (STRIP_CLOCKS + form.strip / line.k * tile.v * PRODUCT + BUSY * min(batches, FULL)
                + MORE * max(batches - FULL, 0))

    # ---- Launches ----

    def plan(self, p, dev, config):
        g, form, (lead, fused) = mma.geometry(p), self._forms(p, dev)[config.tile], WgradMma._tail(p)
        splits, strides = self._splits(p, form, config), p.x.strides
        parts = p.scratch(splits * self._sums(g) * 4)
        needed = (g.out[2] - 1) * g.stride[2] + g.taps[2] - g.pad[2]         # pixels of a row
        args = dict(dy=self._gradients(p, g, form.strip), x=p.ptr("x"), parts=parts, x_n=strides[0],
                    x_h=strides[2] if p.x.rank == 4 else 0, x_w=strides[-1], height=g.size[1],
                    width=max(min(g.size[2], needed), 0), channels=g.c, lanes_log=form.lanes.bit_length() - 1,
                    top=g.pad[1], left=g.pad[2], stride_h=g.stride[1], stride_w=g.stride[2],
                    dilation=g.dilation[1], strip=form.strip, places=form.places, step=form.step,
                    down=int(form.down), k=g.k, rows=g.out[1], strips=form.pieces, splits=splits,
                    count=p.dy.n * form.pieces * g.out[1], taps=g.taps[1:], tile_taps=form.tile_taps,
                    row_tiles=form.row_tiles, col_tiles=form.col_tiles, ring=form.ring, stages=form.stages,
                    is_flipped=int(g.is_flipped))
        product = Launch(_kernel(p, config.tile), args)
        return [product, ordered_sum(p, lead, fused, parts, splits, max(form.lanes, 4))]


@once_per_match
def _forms(p, room: int) -> dict:
    """Form of each tile that can be had in so many bytes of shared memory."""
    needs = {name: kernels.get(_kernel(p, name)).smem_bytes for name in TILES}
    every = {name: shape(mma.geometry(p), tile, needs[name], room) for name, tile in TILES.items()}
    return {name: form for name, form in every.items() if form is not None}


def _kernel(p, tile: str) -> str:
    return f"conv_first_wgrad_{p.x.dtype}_{tile}"
