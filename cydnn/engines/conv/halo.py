"""Convolutions on tensor cores from a block's pixels with their halo: forward and data gradient."""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ... import fusion, kernels
from ...graph import core, many, once_per_match
from ...kernels.expressions import ceil_div
from ...ops import ConvDgrad, ConvFprop, Pointwise
from ...steps import Launch
from ..engine import PLAIN, Engine, no_elements, together
from ..tile import cost as tile_cost
from ..tile.cost import POWER
from ..tile.line import GROUP_ROWS, LINE_BYTES, line_of
from ..tile.maps import tiled_map
from ..tile.matrices import too_many
from ..tile.program import TileProgram
from ..tile.store import raggedness
from . import mma
from .fprop_first import is_whole
from .view import Lifted, behind_image
from .wgmma import Windows, image_map, in_lines, not_in_lines

SOURCE = "conv/conv_halo.cu"
PLACES, STAGES = 240, 4                          # of a product; most stages
BOX = 256                                        # a side of a box
BARRIERS = 128                                   # bytes, beside what the contract says

TAP, RATE = 4 * PLACES // 2, 0.87 * POWER        # clocks of a tap at the math rate; share of it
TURN, OUT, START = 100, 2600, 11500              # clocks between two tiles; of a way out; beside all tiles
FUSED_OUT = 700                                  # of an instruction that is fused
APART = 1.3, 1.45, 2.0                           # of what is moved, where teams write parts of one row, by
                                                 # raggedness


@dataclass(frozen=True)
class Tiles:
    """``rows`` x ``columns`` pixels each, ``strips`` along a row of the image, ``bands`` of rows. A stage has
    ``read`` pixels that come, in rows of ``pitch``, and ``x_rows`` lines of 128 bytes."""
    rows: int
    columns: int
    pitch: int
    read: int
    x_rows: int
    stages: int
    strips: int
    bands: int


def _tiles(size: tuple, reach: tuple, columns: int, room: int) -> Tiles | None:
    """The highest tiles so wide; None where two stages find no room."""
    (height, width), (down, right) = size, reach
    pitch, lines = columns + right, room // (2 * LINE_BYTES) // 8 * 8
    least = down * pitch + right + PLACES
    rows = min(height, (PLACES - columns) // pitch + 1, BOX - down, lines // pitch - down)
    if pitch > BOX or rows < 1 or least > lines:
        return None
    bands = ceil_div(height, rows)
    rows = ceil_div(height, bands)
    read = (rows + down) * pitch
    x_rows = ceil_div(max(read, least), 8) * 8
    return Tiles(rows, columns, pitch, read, x_rows, min(room // (LINE_BYTES * x_rows), STAGES),
                 ceil_div(width, columns), bands)


def tiles_of(size: tuple, reach: tuple, room: int) -> Tiles | None:
    """The fewest tiles of an image, and of these the smallest stages; None where none fits."""
    widths = {ceil_div(size[1], ceil_div(size[1], n)) for n in range(1, min(size[1], PLACES) + 1)}
    found = [t for columns in sorted(widths) if (t := _tiles(size, reach, columns, room))]
    return min(found, key=lambda t: (t.strips * t.bands, t.x_rows), default=None)


class ConvHalo(Engine):
    """The base: from one image to another, unit stride."""
    notes = ("tensor_core", "deterministic")
    reads: ClassVar[str]                         # what the channels that are read are called

    @staticmethod
    def windows(p) -> Windows:
        raise NotImplementedError

    def refuse(self, p, dev):
        wrong = list(self._wrong(p, dev))
        yield from wrong
        if wrong:
            return
        v = self.windows(p)
        if set(v.stride) != {1}:
            yield f"stride must be 1; got {p.op.geometry(p.w.rank)[2]}"
        if p.op.math != "f32":
            yield f"compute must be f32 for {p.w.dtype} tensors; got {p.op.compute}"
        if v.groups > 1:
            yield f"groups must be 1; got {v.groups}"
        if v.channels > (most := line_of(p).elements):
            yield f"{self.reads} must be at most {most}; got {v.channels}"
        yield from self._refuse_layout(p, v)
        yield from self._refuse_sizes(p, dev, v)
        yield from fusion.reasons(self.tail(p))

    @staticmethod
    def _wrong(p, dev):
        """The reasons with which nothing else is asked."""
        yield from TileProgram.wrong(p, dev, SOURCE)
        yield from no_elements(p.operands)
        if p.w.rank > 4:
            yield f"images must have 1 or 2 spatial dims; got {p.w.rank - 2}"

    def _refuse_layout(self, p, v):
        for name in (v.image, "w"):
            d = p.operands[name]
            if d.alignment < 16:
                yield f"{name} must be aligned to 16 bytes; got {d.alignment}"
            if not in_lines(d):
                yield from not_in_lines(name, d)
            else:
                found = self._filters(p, v) if name == "w" else image_map(p, name, 1, 1)
                yield from (f"{name}: {reason}" for reason in kernels.map_reasons(found))
        tensor = self.lead(p).tensor
        if not is_whole(Lifted.of(tensor), tensor):
            yield (f"{p.op.writes[0]} must have contiguous channels and other strides in multiples of 8, and "
                   f"be aligned to 16 bytes; got {tensor.c} channels, strides {tensor.strides}, aligned to "
                   f"{tensor.alignment}")

    def _refuse_sizes(self, p, dev, v):
        tiles = self.tiles(p, dev)
        if tiles is None:
            yield (f"64 filters and two stages of the pixels that {PLACES} places meet must fit into "
                   f"{self._room(p, dev, (0, 0))} bytes, their rows into boxes of {BOX}; got taps of "
                   f"{v.taps[1:]} and dilation {v.dilation[1:]}")
        else:
            yield from too_many(f"tiles of {p.op.writes[0]}", self.count(p, tiles))

    @staticmethod
    def lead(p):
        return p.lead(p.w.dtype.name)

    def tail(self, p):
        lead = self.lead(p)
        return behind_image(p, p.w.dtype.name, 8 if is_whole(Lifted.of(lead.tensor), lead.tensor) else 1)

    @once_per_match
    def tiles(self, p, dev) -> Tiles | None:
        """None where they do not fit."""
        v = self.windows(p)
        return tiles_of(v.out[1:], v.reach[1:], self._room(p, dev, v.taps[1:]))

    def _kernel(self, p) -> str:
        return f"conv_halo_{p.w.dtype}_{self.windows(p).major}"

    def _room(self, p, dev, taps: tuple) -> int:
        """Bytes of all stages, beside the filters of so many taps."""
        needs = kernels.get(self._kernel(p)).smem_bytes(taps=taps, stages=0, x_rows=0)
        return dev.smem_bytes - BARRIERS - needs

    @staticmethod
    def count(p, tiles: Tiles) -> int:
        """Of the tiles of all images."""
        return p.operands[p.op.reads[0]].n * tiles.strips * tiles.bands

    # ---- Choice ----

    def configs(self, p, dev):
        yield PLAIN

    def blocks(self, p, dev) -> tuple:
        """(of each 64 channels that are written, how many there are of these)."""
        teams = ceil_div(self.windows(p).columns, GROUP_ROWS)
        return max(min(self.count(p, self.tiles(p, dev)), dev.sms // teams), 1), teams

    def cost(self, p, dev, config):
        """Memory, or the clocks of the warpgroups that take tiles in turn; more where they are near."""
        t, (each, teams) = self.tiles(p, dev), self.blocks(p, dev)
        v = self.windows(p)
        half = 2 * v.channels <= line_of(p).elements
        products = prod(v.taps) * TAP / RATE * (0.5 if half else 1) + TURN
        out = OUT + FUSED_OUT * fusion.work(self.tail(p))
        tile = max(products, (products + out) / 2, t.read * LINE_BYTES / tile_cost.INTAKE)
        waves = ceil_div(each * teams, dev.sms)
        busy = waves * (START + ceil_div(self.count(p, t), each) * tile) / dev.clock_mhz
        step = Lifted.of(self.lead(p).tensor).steps[2]
        apart = APART[raggedness(v.columns, step, line_of(p))] if teams > 1 else 1.0
        moved = apart * p.region.traffic_bytes / (0.8 * dev.bandwidth_gbs) * 1e-3
        return dev.launch_us + together(3, busy, moved)

    # ---- The launch ----

    @staticmethod
    def _filters(p, v):
        """The map of w: channels, filters, then the taps, width first."""
        dims, gaps = (p.w.c, p.w.n, *v.taps[::-1]), (p.w.strides[0], *p.w.strides[:1:-1], 0, 0)[:4]
        return tiled_map(p.ptr("w"), p.w, dims, gaps, GROUP_ROWS, 1, 1, 1)

    def plan(self, p, dev, config):
        v, t, (each, teams), lead = self.windows(p), self.tiles(p, dev), self.blocks(p, dev), self.lead(p)
        y = Lifted.of(lead.tensor)
        args = dict(x=image_map(p, v.image, t.pitch, t.rows + v.reach[1]), w=self._filters(p, v),
                    **lead.store(p, "y"), alpha=p.scalar("alpha"), reads=v.channels, channels=v.columns,
                    teams=teams, tiles=self.count(p, t), rows=t.rows, columns=t.columns, x_rows=t.x_rows,
                    stages=t.stages,
                    height=v.out[1], width=v.out[2], is_plain=int(self.tail(p) is None),
                    is_flipped=int(v.is_flipped), y_n=y.n_step, y_h=y.steps[1], y_w=y.steps[2],
                    taps=v.taps[1:], dilation=v.dilation[1:], first=v.first[1:], pitch=t.pitch,
                    strips=t.strips, bands=t.bands)
        return [Launch(self._kernel(p), args, dict(blocks=each * teams),
                       fusion.at("epilogue", self.tail(p)))]


class ConvFpropHalo(ConvHalo):
    """At most 64 channels, unit stride: TMA brings a tile of x and what its taps reach, which wgmma reads
    once for each tap, begun at another pixel. The filters of 64 channels of y stay in shared memory."""
    index = 119
    takes = core(ConvFprop, behind=many(Pointwise))
    v5 = ("IMPLICIT_PRECOMP_GEMM",)
    reads = "c"

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        return Windows("x", g.size, g.out, g.taps, g.stride, tuple(-a for a in g.pad), g.dilation, g.c, g.k,
                       g.groups, g.is_flipped, "ak")


class ConvDgradHalo(ConvHalo):
    """At most 64 filters, unit stride: TMA brings a tile of dy and what its taps reach, which wgmma reads
    once for each tap, begun at another pixel. What the filters have of 64 channels of dx stays in shared
    memory."""
    index = 139
    takes = core(ConvDgrad, behind=many(Pointwise))
    v5 = ("ALGO_1",)
    reads = "k"

    @staticmethod
    def windows(p):
        g = mma.geometry(p)
        first = tuple(a - (r - 1) * d for a, r, d in zip(g.pad, g.taps, g.dilation))
        return Windows("dy", g.out, g.size, g.taps, g.stride, first, g.dilation, g.k, g.c, g.groups,
                       not g.is_flipped, "am")
