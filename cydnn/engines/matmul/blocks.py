"""What the engines of Hopper's tile program share (kernels_src/tile/wgmma_blocks.cuh): tiles and their time,
the ways out, tensor maps of matrices."""
from __future__ import annotations

from typing import NamedTuple

from ... import kernels
from ...kernels.expressions import ceil_div
from ...steps import TensorMap
from ..engine import Config, Knob, first_then, no_variant, wrong_device
from .view import SplitMatmul, is_whole

DEPTH, LINE = 64, 64                             # elements of a step; of a row of 128 bytes
BATCH_DIMS, BYTES = 3, 2                         # of a tensor map, beside the matrix; of an element
POWER = 0.76                                     # share of the clock under full load
INTAKE = 42                                      # bytes that an SM gets from the L2 cache in a clock
ELEMENTS, ROWS, BOXES = range(3)                 # WgmmaForm


class Tile(NamedTuple):
    """A shape of kernels_src/tile/wgmma.cuh. ``share`` of the math rate that it reaches with operands at
    hand, ``band`` of rows that go together; estimates until measured."""
    m: int
    n: int
    share: float
    band: int


TILES = {"128x256": Tile(128, 256, 0.96, 8), "128x128": Tile(128, 128, 0.94, 16),
         "64x256": Tile(64, 256, 0.92, 16), "64x128": Tile(64, 128, 0.85, 16)}


def tile_knobs(tiles: dict) -> tuple:
    return Knob("tile", tuple(tiles)), Knob("splits", lo=1, hi=2 ** 20), Knob("out", ("boxes", "rows"))


class TileProgram(SplitMatmul):
    """The base. Blocks stay and take tile after tile; deep products are split and added in order."""
    tiles, knobs = TILES, tile_knobs(TILES)
    unit = DEPTH
    notes = ("deterministic", "tensor_core")

    def tail(self, p):
        """What is spliced behind it, tried once; None for nothing."""
        raise NotImplementedError

    def moved_bytes(self, p, g) -> int:
        """Of memory, where every operand is touched once."""
        raise NotImplementedError

    @staticmethod
    def wrong(p, dev, source: str):
        """The reasons that they share; with the first of them nothing else is asked."""
        yield from wrong_device(dev, 90)
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        yield from no_variant(p, source, *p.op.reads)

    def boxes(self, p) -> TensorMap | None:
        """The map of the output, where TMA can store it."""
        lead, g = self.matrices(p)
        if not lead.is_native or self.tail(p) is not None or not is_whole(g, lead.tensor):
            return None
        found = matrix_map(p, p.op.writes[0], lead.tensor, (g.n, g.m), g.c[0], g, g.c_batch, 64)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    def ways(self, p, g, dev, tile):
        t = self.tiles[tile]
        blocks = ceil_div(g.m, t.m) * ceil_div(g.n, t.n) * g.count
        moved = self.moved_bytes(p, g) / (0.87 * dev.bandwidth_gbs) * 1e-3

        def estimate(splits, depth):
            steps = ceil_div(max(depth, 1), DEPTH)
            math = t.m * t.n * DEPTH / (2048 * t.share * POWER)
            step = max(math, (t.m + t.n) * 2 * LINE / INTAKE)
            waves = ceil_div(blocks * splits, dev.sms)
            tail = 1500 + t.m * t.n / 16                     # the first stage on its way; the last way out
            busy = (waves * (steps * step + t.m * t.n / 64) + tail) / dev.clock_mhz
            return (busy ** 4 + moved ** 4) ** 0.25          # the longer one, more where they are near
        return blocks, 4, estimate

    def configs(self, p, dev):
        outs = ("rows",) if self.boxes(p) is None else ("boxes", "rows")
        best, *others = super().configs(p, dev)
        with_out = lambda config, out: Config(tile=config.tile, splits=config.splits, out=out)
        every = (with_out(config, out) for out in outs for config in (best, *others))
        return first_then(with_out(best, outs[0]), every)

    # ---- Launches ----

    def out(self, p, config, spare: TensorMap) -> tuple[TensorMap, int]:
        """(map, form) of the output; ``spare`` where it has no map."""
        lead, g = self.matrices(p)
        boxes = self.boxes(p) if config.get("out", "boxes") == "boxes" else None
        return boxes or spare, BOXES if boxes else ROWS if is_whole(g, lead.tensor) else ELEMENTS

    @staticmethod
    def grid(g, tile, splits, dev) -> dict:
        """The extra names of a launch: no more blocks than SMs."""
        tiles = ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count * splits
        return dict(blocks=min(tiles, dev.sms))


def matrix_map(p, name, tensor, dims, step, g, batch_steps, side) -> TensorMap:
    """The map of the matrices of an operand: two dims, three of the batch; those that do not move are 1."""
    every = (*dims, *(d if s else 1 for d, s in zip(g.batch[:BATCH_DIMS], batch_steps)))
    strides = (step, *batch_steps[:BATCH_DIMS])
    return tiled_map(p, name, tensor, every, strides, (LINE, side, 1, 1, 1))


def tiled_map(p, name, tensor, dims, strides, box) -> TensorMap:
    """A map of an operand; ``strides`` in elements, of any value where a dim is 1."""
    found = tuple(16 if d == 1 else BYTES * s for d, s in zip(dims[1:], strides))
    return TensorMap(p.ptr(name), tensor.dtype.name, dims, found, box, swizzle=128)
