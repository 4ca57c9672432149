"""Resident filters: a way of the convolutions on Hopper's tile program (wgmma.py) in which the filters of
``resident`` channels stay in shared memory (kernels_src/conv/conv_wgmma_kept.cu)."""
from __future__ import annotations

from ... import fusion, kernels
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, together
from ..tile import cost as tile_cost
from ..tile.cost import Tile
from ..tile.line import GROUP_ROWS, line_of
from ..tile.store import WARP_ROWS, form, raggedness
from . import mma

SHARE = {128: 0.837, 64: 0.714}                  # by the columns that stay: of the math rate
GROUPS = 4                                       # warpgroups, each with a tile of its own rows
LEAST, MOST = 2, 6                               # stages of a warpgroup
LATE, LATE_EACH = 3092, 7.48                     # clocks until a stage has come, by the columns beside it
TILE, START = 149, 7172                          # clocks between two tiles, around all
OUT = 6                                          # instructions of a way out, for each sum
MEMORY, NEAR = 0.91, 3.06                        # share of the bandwidth; how two times that are near add up
APART = 1.0, 2.0, 2.3                            # of what is moved, where blocks write parts of rows, by
                                                 # raggedness; fitted to an H200


def stages(engine, p, dev, columns: int) -> int:
    """Of a warpgroup, beside the filters of so many channels; 0 where they cannot stay."""
    g = engine.matrices(p)[1]
    if p.last or g.count > 1 or not g.n or ceil_div(g.n, columns) > dev.sms:
        return 0
    if engine.boxes(p, WARP_ROWS) is None:
        return 0
    if g.n % columns and (columns > 64 or engine.tail(p)):       # what is fused reads all columns of 64
        return 0
    needs = kernels.get(_kernel(engine, p, columns)).smem_bytes
    return next((n for n in range(MOST, LEAST - 1, -1) if needs(k=g.k, stages=n) <= dev.smem_bytes), 0)


def _kernel(engine, p, columns: int) -> str:
    return f"conv_wgmma_kept_{p.w.dtype}_{columns}_{engine.windows(p).major}"


def configs(engine, p, dev) -> list[Config]:
    return [Config(resident=columns) for columns in SHARE if stages(engine, p, dev, columns)]


def us(engine, p, dev, config) -> float:
    """Estimated: what comes in, products, what is fused, or memory; more where some are near."""
    g, n, line = engine.matrices(p)[1], config.resident, line_of(p)
    rounds = ceil_div(ceil_div(g.m, GROUP_ROWS), dev.sms // ceil_div(g.n, n))        # tiles of a block
    coming = (LATE + LATE_EACH * n) / (GROUPS * stages(engine, p, dev, n))
    step = max(GROUP_ROWS * n * line.elements / (line.macs * SHARE[n] * tile_cost.POWER), coming)
    fused = mma.ISSUE * GROUP_ROWS * n * (fusion.work(engine.tail(p)) + OUT)
    tile = together(3, ceil_div(g.k, line.elements) * step + TILE, fused)
    busy = (rounds * tile + START + line.bytes * g.k * n / tile_cost.INTAKE) / dev.clock_mhz
    apart = 1.0 if n >= g.n else APART[raggedness(g.n, g.c[0], line)]
    moved = apart * engine.moved_bytes(p, g) / (MEMORY * dev.bandwidth_gbs) * 1e-3
    return together(NEAR, busy, moved)


def launches(engine, p, dev, config) -> list:
    v, (lead, g), steps, columns = engine.windows(p), engine.matrices(p), [], config.resident
    x, w = engine.operands(p, v, dev, Tile(GROUP_ROWS, columns, 1.0, 1), steps)
    count, tail, boxes = ceil_div(g.n, columns), engine.tail(p), engine.boxes(p, WARP_ROWS)
    args = dict(x=x, w=w, boxes=boxes, **lead.store(p, "y"), alpha=p.scalar("alpha"),
                m=g.m, n=g.n, k=g.k, stages=stages(engine, p, dev, columns), columns=count,
                y_form=form(boxes, is_fused=tail is not None, is_whole=True), y_m=g.c[0], rank=len(x.dims),
                **v.args())
    grid = dict(blocks=min(ceil_div(g.m, GROUP_ROWS), dev.sms // count) * count)
    return [*steps, Launch(_kernel(engine, p, columns), args, grid, fusion.at("epilogue", tail))]
