"""Tiles of Hopper's tile program (kernels_src/tile/wgmma_blocks.cuh), and the model of their time: constants
fitted to an H200 and an H100 (benchmarks/fit.py)."""
from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ...kernels.expressions import ceil_div, tile_order
from ..engine import together
from .line import LINE_BYTES, Line
from .stream_k import Shares

POWER = 0.89                                     # share of the clock under full load
MEMORY, NEAR = 0.937, 2.83                       # share of the bandwidth; how two times that are near add up
INTAKE = 47.7                                    # bytes that an SM gets from the L2 cache in a clock
ASTRAY, OUTSIDE = 0.66, 1.4                      # of a row's way in, where it begins within a 128-byte line;
                                                 # where it lies outside of the matrix
TAIL, TAIL_OF = 5799, 0.102                      # clocks: the first stage on its way; the last way out, a sum
TILE, OUT = 696, 0.0534                          # clocks between two tiles; a sum of a way out between others
FUSED_OUT = 0.0087                               # of an instruction that is fused, for each sum of a tile:
                                                 # all groups share the issue slots
AT_ONCE = {1: 1.0, 2: 1.0, 4: 0.91}             # share of the SMs that clusters find
TEAM_CLOCKS, NEIGHBOUR = 5721, 27.7              # their barriers; bytes a clock from each other
SUM_US = 1.74                                    # of an ordered sum, beside its launch and what it moves
MEET, KEPT, ADDED = 1059, 0.441, 0.233           # clocks until all have met; of a sum that others add
UNIT = 1024                                      # sums that a warp adds and stores
COOPERATIVE_US = 0.443                           # what a launch takes longer whose blocks wait for each other
L2_SHARE = 0.16                                  # of the L2 cache that keeps what steps far apart read again


class Tile(NamedTuple):
    """A shape of kernels_src/tile/wgmma.cuh. ``share`` of the math rate that it reaches with operands at
    hand, ``band`` of rows that go together, ``team`` of a step where a cluster shares the depth; fitted to an
    H200 and an H100. ``groups`` of 64 rows, or of half of the columns, multiply; three have a tile alone."""
    m: int
    n: int
    share: float
    band: int
    team: float = 1.0
    groups: int = 2

    @property
    def is_shared(self) -> bool:
        return self.groups == 2

    @property
    def out(self) -> float:
        """Sums that leave one after the other, of two groups."""
        return self.m * self.n * 2 / self.groups


TILES = {"128x256": Tile(128, 256, 0.84, 8), "128x192": Tile(128, 192, 0.98, 11),
         "128x128": Tile(128, 128, 0.806, 16, team=1.12), "64x256": Tile(64, 256, 0.8, 16),
         "64x128": Tile(64, 128, 0.91, 16),
         "128x64": Tile(128, 64, 0.51, 32), "192x128": Tile(192, 128, 0.86, 11, groups=3)}


def order(g, tile, matrices: int, cast: int = 1) -> tuple:
    """Divisors by which the kernel finds a tile, or as many that are below each other."""
    return tile_order(ceil_div(g.m, cast * tile.m), ceil_div(g.n, tile.n), tile.band // cast, matrices)


def astray(steps: tuple, line: Line) -> float:
    """The share of the rows of an operand that begin within a line of memory; 0 of a convolution's."""
    return 1 - gcd(line.bytes * max(steps), LINE_BYTES) / LINE_BYTES


def outside(size: int, side: int) -> float:
    """The share of the rows of tiles that lies outside of a matrix."""
    return 1 - size / (ceil_div(size, side) * side) if size else 0.0


def step_clocks(g, t: Tile, line: Line, cast: int = 1) -> float:
    """Clocks of a step of a block: of its arithmetic, or of its operands' way in."""
    of_a = ASTRAY * astray(g.a, line) + OUTSIDE * outside(g.m, t.m)
    of_b = ASTRAY * astray(g.b, line) + OUTSIDE * outside(g.n, t.n)
    read = t.m * (1 + of_a) + t.n / cast * (1 + of_b)
    return max(t.m * t.n * line.elements / (line.macs * t.share * POWER), read * LINE_BYTES / INTAKE)


class Model(NamedTuple):
    """The time of the products ``g`` in a tile: ``step`` clocks of a step, ``fused`` instructions behind each
    sum, ``moved_bytes`` of memory, where every operand is touched once."""
    dev: object
    g: object
    line: Line
    tile: Tile
    step: float
    fused: int
    moved_bytes: float

    def us(self, blocks: int, splits: int, depth: int, team: int = 1, cast: int = 1) -> float:
        """Microseconds of so many blocks of the whole depth, cut into parts of ``depth``."""
        t, fused = self.tile, FUSED_OUT * self.fused * self.tile.m * self.tile.n
        waves = ceil_div(blocks * splits * team, max(int(self.dev.sms * AT_ONCE[team * cast]), 1))
        tail = TAIL + t.out * TAIL_OF
        if team > 1:                                         # blocks stay for one tile
            tail = waves * (tail + TEAM_CLOCKS + t.m * t.n * self.line.sum_bytes / NEIGHBOUR)
        each = self.step * (t.team if team > 1 else 1)
        tile_clocks = self._steps(max(depth, 1)) * each + TILE + OUT * t.out + fused
        busy = waves * tile_clocks + tail
        return self._beside_memory(busy, self.moved_bytes) + (SUM_US if splits > 1 else 0.0)

    def shares_us(self, found: Shares) -> float:
        """The same of stream-K: sums of others come from the L2 cache. Lanes read the columns of a tile once
        for all; else, of uneven shares, no two blocks are at the same step, and what they read again comes
        from memory where the cache has not all of it."""
        t, g = self.tile, self.g
        out = (OUT + FUSED_OUT * self.fused) * t.m * t.n
        each = self._steps(g.k) * self.step + TILE + out
        units, pieces = t.m * t.n / UNIT, ceil_div(found.steps, found.share)
        tail = TAIL + TILE + MEET + out - OUT * t.m * t.n + KEPT * t.m * t.n * (1 if found.is_even else 2)
        tail += ADDED * UNIT * max(pieces, units)            # a block adds a unit at least
        read, size = found.rest * LINE_BYTES, self.line.bytes * g.count * g.k
        again = 0 if found.is_even else sum(
            max(1 - L2_SHARE * self.dev.l2_bytes / all_, 0) * max(some - all_, 0)
            for some, all_ in ((read * t.m, size * g.m), (read * t.n / found.lanes, size * g.n)))
        busy = found.alone // found.blocks * each + found.share * self.step + tail
        return self._beside_memory(busy, self.moved_bytes + again) + COOPERATIVE_US

    def _steps(self, depth: int) -> int:
        return ceil_div(depth, self.line.elements)

    def _beside_memory(self, clocks: float, moved_bytes: float) -> float:
        """Microseconds of blocks that are busy for so long, while memory is; more where the two are near."""
        moved = moved_bytes / (MEMORY * self.dev.bandwidth_gbs) * 1e-3
        return together(NEAR, clocks / self.dev.clock_mhz, moved)
