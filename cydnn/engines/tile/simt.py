"""Tiles of the tile program on CUDA cores (kernels_src/tile/simt.cuh), and what they cost."""
from __future__ import annotations

from typing import NamedTuple

from ...kernels.expressions import ceil_div
from ..engine import Config, Knob

START, START_EACH = 5400, 0.94                   # clocks of a launch: of its code, of a sum of a block
LEAVES = 0.73                                    # clocks of a sum that is stored in 16 bits
SHALLOW = 128                                    # depth up to which nothing of the way in is hidden


class SimtTile(NamedTuple):
    """A shape of kernels_src/tile/simt.cuh:
    rows, columns, depth of a step, share of the FMA peak in a full machine (fitted on an H200), and of that
    what a block reaches that has an SM to itself."""
    rows: int
    columns: int
    step: int
    share: float
    blocks: int = 2                              # that an SM holds
    alone: float = 1.0


TILES = {"t128x128": SimtTile(128, 128, 8, 0.58), "t128x64": SimtTile(128, 64, 16, 0.47),
         "t64x64": SimtTile(64, 64, 16, 0.42), "t32x32": SimtTile(32, 32, 32, 0.22)}
ASYNC = {"a128x256": SimtTile(128, 256, 16, 0.7, 1), "a128x128": SimtTile(128, 128, 16, 0.65),
         "a128x64": SimtTile(128, 64, 16, 0.61, 4, 0.9), "a64x64": SimtTile(64, 64, 16, 0.58, 8, 0.49)}
ALL = TILES | ASYNC                              # ASYNC: kernels_src/tile/simt_async.cuh
SMALL = {name: TILES[name] for name in ("t64x64", "t32x32")}     # of the kernels of any type
KNOB, SMALL_KNOB = Knob("tile", tuple(TILES)), Knob("tile", tuple(SMALL))


def tile_us(tile: str, rows: int, columns: int, depth: int, groups: int, dev, sum_type: str) -> float:
    """Estimated microseconds of a tiled product:
    arithmetic of the busiest SM, or the latency of its steps."""
    m, n, step, share, resident, alone = ALL[tile]
    blocks = ceil_div(rows, m) * ceil_div(columns, n) * groups
    share *= alone if blocks <= dev.sms else 1.0
    steps = ceil_div(max(depth, 1), step)
    rate = (dev.fma_f64 if sum_type == "f64" else dev.fma_f32) * share
    busy = ceil_div(blocks, dev.sms) * steps * step * m * n / rate
    waiting = ceil_div(blocks, resident * dev.sms) * (steps * 600 + 2500 + m * n // 10)
    return (START + START_EACH * m * n + max(busy, waiting)) / dev.clock_mhz


def leaving_us(tile: str, rows: int, columns: int, groups: int, dev, bits: int) -> float:
    """Estimated microseconds in which sums are stored, beside those of ``tile_us``, fitted on an H200."""
    m, n, *_ = ALL[tile]
    blocks = ceil_div(rows, m) * ceil_div(columns, n) * groups
    return LEAVES * ceil_div(blocks, dev.sms) * m * n / dev.clock_mhz if bits == 16 else 0.0


def shallow_us(moved_bytes: float, depth: int, dev) -> float:
    """Estimated microseconds in which operands of few steps are brought, and sums stored, beside those of
    ``tile_us``, fitted on an H200: blocks of a shallow product hide little of it."""
    return moved_bytes / (0.9e3 * dev.bandwidth_gbs) * min(SHALLOW / max(depth, 1), 1.0)


def arithmetic_us(p, dev) -> float:
    """Half of what the arithmetic of a match's op takes on CUDA cores at their peak in f32."""
    return p.op.flops(**p.operands) / (4 * dev.fma_f32 * dev.sms * dev.clock_mhz)


def by_time(tiles, rows, columns, depth, groups, dev, sum_type) -> list[Config]:
    """A configuration for each tile, the cheapest first."""
    found = [(tile_us(t, rows, columns, depth, groups, dev, sum_type), t) for t in tiles]
    return [Config(tile=t) for _, t in sorted(found)]


def tiles_of(tile: str, rows: int, columns: int) -> dict:
    """The extra names of a launch: tiles of rows and of columns."""
    return dict(tiles_m=ceil_div(rows, ALL[tile].rows), tiles_n=ceil_div(columns, ALL[tile].columns))


def has_async(tensor, dev) -> bool:
    """Whether the tiles whose operands are copied past the registers have an image."""
    return tensor.dtype.name == "f32" and dev.sm >= 80
