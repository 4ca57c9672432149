"""What the engines of Hopper's tile program share (kernels_src/tile/wgmma_blocks.cuh): tiles and their time,
the ways out, tensor maps of matrices."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar, Iterator, NamedTuple

from ... import fusion, kernels
from ...kernels.expressions import ceil_div, tile_order
from ...steps import Launch, Pointer, TensorMap
from ..engine import Config, Knob, first_then, no_variant, together, wrong_device
from . import sums
from .matrices import Cut, SplitMatmul, cut as cut_into, is_whole, parts, with_sum

DEPTH, LINE = 64, 64                             # elements of a step; of a row of 128 bytes
BATCH_DIMS, BYTES = 3, 2                         # of a tensor map, beside the matrix; of an element
POWER = 0.89                                     # share of the clock under full load
MEMORY, NEAR = 0.824, 2.53                       # share of the bandwidth; how two times that are near add up
INTAKE = 43.2                                    # bytes that an SM gets from the L2 cache in a clock
ASTRAY = 0.69                                    # of a row's way in, where it begins within a 128-byte line
TAIL, TAIL_OF = 5510, 0.0502                     # clocks: the first stage on its way; the last way out, a sum
TILE, OUT = 588, 0.0353                          # clocks between two tiles; a sum of a way out between others
FUSED_OUT = 0.0087                               # of an instruction that is fused, for each sum
WARP_ROWS = 16                                   # of a box of the output, where each warp has its own
TEAMS = (1, 2, 4)                                # blocks of a cluster that share a depth
AT_ONCE = {1: 1.0, 2: 1.0, 4: 0.91}             # share of the SMs that clusters find
CAST, CAST_TILE = 2, "128x256"                   # blocks to which each brings half of b; their tile
TEAM_CLOCKS, NEIGHBOUR = 3330, 22.6              # their barriers; bytes a clock from each other
SUM_US = 1.79                                    # of an ordered sum, beside its launch and what it moves
ELEMENTS, ROWS, BOXES, FUSED = range(4)          # WgmmaForm


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


TILES = {"128x256": Tile(128, 256, 0.84, 8), "128x128": Tile(128, 128, 0.79, 16, team=1.12),
         "64x256": Tile(64, 256, 0.80, 16), "64x128": Tile(64, 128, 0.91, 16),
         "128x64": Tile(128, 64, 0.51, 32), "192x128": Tile(192, 128, 0.86, 11, groups=3)}
PIECES, LEAST = 4, 2                             # stream-K: most blocks of a tile, least steps of a block
ROUNDS = [(n, pieces) for n in (1, 2, 3) for pieces in (2, 3, 4)]    # of whole tiles, before an even share
LANES = 8                                        # most of them
MEET, KEPT, ADDED = 1610, 0.3, 0.294             # clocks until all have met; of a sum that others add
UNIT = 1024                                      # sums that a warp adds and stores
COOPERATIVE_US = 1.01                            # what a launch takes longer whose blocks wait for each other
L2_SHARE = 1.0                                   # of the L2 cache that keeps what steps far apart read again
STREAMS = (1, 2)                                 # of equal shares; of a part of one tile each
KNOBS = (Knob("tile", tuple(name for name, tile in TILES.items() if tile.is_shared)),
         Knob("splits", lo=1, hi=2 ** 20), Knob("store", ("tma", "rows")), Knob("cluster_k", TEAMS),
         Knob("stream_k", STREAMS))


@dataclass(frozen=True)
class TeamCut(Cut):
    """A depth that the blocks of a cluster share."""
    team: int = 1


class Shares(NamedTuple):
    """Stream-K: ``blocks`` take ``alone`` tiles as a whole, and ``share`` each of the ``rest`` steps of the
    others, one tile's behind the other's, in ``lanes`` that go abreast. ``steps`` of a tile; more than it has
    where every block has a part of one tile alone."""
    blocks: int
    alone: int
    share: int
    rest: int
    lanes: int = 1
    steps: int = 0

    @property
    def is_even(self) -> bool:
        return self.share > 0 and self.steps % self.share == 0


@dataclass(frozen=True)
class Stream(Cut):
    """A depth that blocks share step by step."""
    shares: Shares | None = None


def stream(tiles: int, steps: int, sms: int, pieces: int = PIECES, lanes: int = 1) -> Shares | None:
    """Equal shares of up to ``pieces`` blocks a tile; a whole round of the tiles is shared with those that
    are left over. None where blocks have equal work anyway, or too little of it. ``lanes`` divides the
    tiles."""
    blocks = min(sms, pieces * tiles) // lanes * lanes
    if not blocks or tiles % blocks == 0:
        return None
    alone = max(tiles // blocks - 1, 0) * blocks
    rest = (tiles - alone) * steps
    each = ceil_div(rest, blocks)
    return None if each < LEAST else Shares(blocks, alone, each, rest, lanes, steps)


def even(tiles: int, steps: int, sms: int) -> Iterator[Shares]:
    """The tiles behind some whole rounds have as many blocks each, and blocks a part of one tile. Blocks that
    follow each other have the same part of all of them, and read the same."""
    most = sms // tiles
    for rounds, pieces in {(0, most), (0, most // 2), (0, most // 4), (0, 2), *ROUNDS}:
        shared, left = divmod(tiles, rounds * pieces + 1)
        each = ceil_div(steps, max(pieces, 1))
        is_sooner = rounds * steps + each < ceil_div(tiles, sms) * steps and each >= LEAST
        is_all = pieces >= 2 and ceil_div(steps, each) == pieces or not rounds
        pieces = ceil_div(steps, each)                       # the last ones would have nothing
        if left == 0 and is_all and is_sooner and shared * pieces <= sms:
            rest = shared * pieces * each
            yield Shares(shared * pieces, tiles - shared, each, rest, shared, pieces * each)


def astray(steps: tuple) -> float:
    """The share of the rows of an operand that begin within a line of 128 bytes; 0 of a convolution's."""
    line = BYTES * LINE
    return 1 - gcd(BYTES * max(steps), line) / line


def order(g, tile, matrices: int, cast: int = 1) -> tuple:
    """What the kernel divides by to find a tile, or as many that are below each other."""
    return tile_order(ceil_div(g.m, cast * tile.m), ceil_div(g.n, tile.n), tile.band // cast, matrices)


def brought(config) -> Tile:
    """The tile, with the columns of b that a block brings."""
    tile = TILES[config.tile]
    return tile._replace(n=tile.n // config.get("multicast", 1))


def lanes_of(rows: int, band: int) -> list[int]:
    """In how many lanes tiles of one column can go abreast: they are as many in every band."""
    last = rows - (rows - 1) // band * band
    of = last if rows <= band else gcd(band, last)
    return [n for n in range(1, LANES + 1) if of % n == 0]


def share(depth: int, team: int) -> int:
    """What each of a team has of a depth, in whole steps; 0 where one would have nothing."""
    each = ceil_div(ceil_div(depth, team), DEPTH) * DEPTH
    return each if each * (team - 1) < depth else 0


class TileProgram(SplitMatmul):
    """The base. Blocks stay and take tile after tile; deep products are split and added in order.

    ``stream``: stream-K, of equal shares (1) or of whole parts (2). ``cast``: two blocks of a cluster have
    tiles of the same columns, and each brings half of operand b to both."""
    knobs = KNOBS
    unit = DEPTH
    notes = ("deterministic", "tensor_core")

    def tail(self, p):
        """What is spliced behind it, tried once; None for nothing."""
        raise NotImplementedError

    def moved_bytes(self, p, g) -> int:
        """Of memory, where every operand is touched once."""
        raise NotImplementedError

    def kernel(self, p, tile: str) -> str:
        """Its name."""
        raise NotImplementedError

    @staticmethod
    def wrong(p, dev, source: str):
        """The reasons that they share; with the first of them nothing else is asked."""
        yield from wrong_device(dev, 90)
        if dev.kind == "cuda" and dev.sm > 90:
            yield f"needs sm_90 itself (wgmma); device is sm_{dev.sm}"
        yield from no_variant(p, source, *p.op.reads)

    def may_stream(self, p) -> bool:
        """Its kernel knows stream-K."""
        return True

    def casts(self, p, g, dev) -> bool:
        """Two blocks of a cluster may share operand b, and gain by it."""
        return False

    def tiles(self, p):
        return [tile for tile in self.knobs[0].values if kernels.has(self.kernel(p, tile))]

    def boxes(self, p, side: int = 64) -> TensorMap | None:
        """The map of the output, where TMA can store it."""
        (lead, g), tail = self.matrices(p), self.tail(p)
        if not lead.is_native or not is_whole(g, lead.tensor) or tail is not None and tail.program.stores:
            return None
        found = matrix_map(Pointer(lead.uid), lead.tensor, (g.n, g.m), g.c[0], g, g.c_batch, side)
        return None if any(kernels.map_reasons(found)) else found

    # ---- Choice ----

    def ways(self, p, g, dev, tile):
        blocks, estimate = self.work(p, g, dev, tile)
        return blocks, 4, estimate

    def work(self, p, g, dev, tile, cast=1) -> tuple:
        """(blocks of the whole depth, its estimated microseconds in so many parts of so deep)."""
        t = TILES[tile]
        blocks = cast * ceil_div(g.m, cast * t.m) * ceil_div(g.n, t.n) * g.count
        step, fused = self._step(g, t, cast), FUSED_OUT * fusion.work(self.tail(p))

        def estimate(splits, depth, team=1):
            waves = ceil_div(blocks * splits * team, max(int(dev.sms * AT_ONCE[team * cast]), 1))
            tail = TAIL + t.out * TAIL_OF
            if team > 1:                                     # blocks stay for one tile
                tail = waves * (tail + TEAM_CLOCKS + t.m * t.n * 4 / NEIGHBOUR)
            each = step * (t.team if team > 1 else 1)
            tile_clocks = ceil_div(max(depth, 1), DEPTH) * each + TILE + (OUT + fused) * t.out
            busy = waves * tile_clocks + tail
            return self._together(dev, busy, self.moved_bytes(p, g)) + (SUM_US if splits > 1 else 0.0)
        return blocks, estimate

    @staticmethod
    def _step(g, t: Tile, cast: int = 1) -> float:
        """Clocks of a step of a block: of its arithmetic, or of its operands' way in."""
        read = t.m * (1 + ASTRAY * astray(g.a)) + t.n / cast * (1 + ASTRAY * astray(g.b))
        return max(t.m * t.n * DEPTH / (2048 * t.share * POWER), read * BYTES * LINE / INTAKE)

    @staticmethod
    def _together(dev, clocks: float, moved_bytes: float) -> float:
        """Microseconds of blocks that are busy for so long, while memory is; more where the two are near."""
        moved = moved_bytes / (MEMORY * dev.bandwidth_gbs) * 1e-3
        return together(NEAR, clocks / dev.clock_mhz, moved)

    def _stream_us(self, p, g, dev, tile, found: Shares) -> float:
        """Estimated microseconds of stream-K: sums of others come from the L2 cache. Lanes read the columns
        of a tile once for all; else, of uneven shares, no two blocks are at the same step, and what they read
        again comes from memory where the cache has not all of it."""
        t = TILES[tile]
        out = (OUT + FUSED_OUT * fusion.work(self.tail(p))) * t.m * t.n
        each = ceil_div(g.k, DEPTH) * self._step(g, t) + TILE + out
        units, pieces = t.m * t.n / UNIT, ceil_div(found.steps, found.share)
        tail = TAIL + TILE + MEET + out - OUT * t.m * t.n + KEPT * t.m * t.n * (1 if found.is_even else 2)
        tail += ADDED * UNIT * max(pieces, units)            # a block adds a unit at least
        once, read = self.moved_bytes(p, g), found.rest * 2 * DEPTH
        again = 0 if found.is_even else sum(
            max(1 - L2_SHARE * dev.l2_bytes / all_, 0) * max(some - all_, 0)
            for some, all_ in ((read * t.m, 2 * g.count * g.m * g.k),
                               (read * t.n / found.lanes, 2 * g.count * g.n * g.k)))
        busy = found.alone // found.blocks * each + found.share * self._step(g, t) + tail
        return self._together(dev, busy, once + again) + COOPERATIVE_US

    def configs(self, p, dev):
        g, outs = self.matrices(p)[1], ("rows",) if self.boxes(p) is None else ("tma", "rows")
        if p.last:
            summed = [Config(tile=tile, splits=1, store=out, cluster_k=1)
                      for out in outs for tile in TILES if kernels.has(sums.kernel(self.kernel(p, tile)))]
            return first_then(min(summed, key=lambda config: self.cost(p, dev, config)), summed)
        usual, shared_tiles = list(super().configs(p, dev)), [t for t in self.tiles(p) if TILES[t].is_shared]
        alone = [Config(tile=c.tile, splits=c.splits, store=out, cluster_k=1) for out in outs for c in usual]
        shared = [Config(tile=tile, splits=1, store="rows", cluster_k=team)
                  for tile in shared_tiles for team in TEAMS[1:] if team <= dev.sms and share(g.k, team)]
        casts = [Config(**dict(c.items()), multicast=CAST) for c in alone
                 if c.tile == CAST_TILE] if self.casts(p, g, dev) else []
        streams = [Config(tile=tile, splits=1, store=out, cluster_k=1, stream_k=kind)
                   for out in outs for tile in shared_tiles for kind in STREAMS
                   if self.may_stream(p) and self._shares(p, dev, tile, kind)]
        best = min((alone[0], *shared, *streams, *casts), key=lambda config: self.cut(p, dev, config).us)
        return first_then(best, [*alone, *shared, *streams, *casts])

    def cost(self, p, dev, config):
        return super().cost(p, dev, config) + (sums.us(p, self.matrices(p)[1], dev) if p.last else 0.0)

    def cut(self, p, dev, config):
        team, g = config.get("cluster_k", 1), self.matrices(p)[1]
        if config.get("stream_k"):
            found = self._shares(p, dev, config.tile, config.stream_k)
            return Stream(self._stream_us(p, g, dev, config.tile, found), config.tile, 1,
                          ceil_div(g.k, DEPTH) * DEPTH, found)
        each, estimate = share(g.k, team), self.work(p, g, dev, config.tile, config.get("multicast", 1))[1]
        if team > 1 and each:
            return TeamCut(estimate(1, each, team), config.tile, 1, each, team)
        into = lambda splits: cut_into(g, config.tile, splits, self._unit(p, g), 4, dev, estimate)
        return into(config.splits) or into(1)

    def _shares(self, p, dev, tile, kind) -> Shares | None:
        """Of the tiles of a match: the best, of these that of most lanes."""
        return p.once(("shares", dev, tile, kind), lambda: self._best_shares(p, dev, tile, kind))

    def _best_shares(self, p, dev, tile, kind):
        g, t = self.matrices(p)[1], TILES[tile]
        rows, columns, steps = ceil_div(g.m, t.m), ceil_div(g.n, t.n), ceil_div(g.k, DEPTH)
        tiles = rows * columns * g.count
        if not tiles * g.k:
            return None
        found = even(tiles, steps, dev.sms) if kind == 2 else (
            stream(tiles, steps, dev.sms, lanes=n) for n in lanes_of(rows, t.band))
        return min(filter(None, found), key=lambda one: (self._stream_us(p, g, dev, tile, one), -one.lanes),
                   default=None)

    # ---- Launches ----

    def out(self, p, config, spare: TensorMap) -> tuple[TensorMap, int]:
        """(map, form) of the output; ``spare`` where it has no map."""
        lead, g = self.matrices(p)
        boxes = self.boxes(p) if config.get("store", "tma") == "tma" else None
        form = BOXES if self.tail(p) is None else FUSED
        return boxes or spare, form if boxes else ROWS if is_whole(g, lead.tensor) else ELEMENTS

    def product(self, p, dev, config, args: dict) -> Launch:
        """The kernel, in blocks that stay."""
        g, chosen, tile = self.matrices(p)[1], self.cut(p, dev, config), TILES[config.tile]
        team, cast = getattr(chosen, "team", 1), config.get("multicast", 1)
        tiles = ceil_div(g.m, cast * tile.m) * ceil_div(g.n, tile.n) * g.count * chosen.splits
        args = dict(args, parts=args.get("parts") or parts(p, g, "f32", chosen), split_k=chosen.each,
                    splits=chosen.splits, order=order(g, tile, g.count, cast))
        if tile.is_shared:
            args |= dict(team=team, share=0, alone=tiles, rest=0, lanes=1, steps=ceil_div(g.k, DEPTH))
        if isinstance(chosen, Stream):
            found = chosen.shares
            args |= dict(parts=p.scratch(2 * found.blocks * tile.m * tile.n * 4), share=found.share,
                         alone=found.alone, rest=found.rest // found.lanes, lanes=found.lanes,
                         steps=found.steps)
            return Launch(self.kernel(p, config.tile), args, dict(blocks=found.blocks))
        together = tiles * team if team > 1 else min(tiles, dev.sms // cast)
        return Launch(self.kernel(p, config.tile), args, dict(blocks=together * cast))

    def summed(self, p, product: Launch, out: str) -> list:
        """A product and the ordered sum of its splits; ``out``: its output."""
        if product.args.get("share"):                # its blocks add what they have
            return [replace(product, fuse=fusion.at("epilogue", self.tail(p)))]
        return with_sum(self.matrices(p)[1], product, f"matmul_sum_{p.operands[p.op.reads[0]].dtype}",
                        product.args["splits"], fusion.at("epilogue", self.tail(p)), out)

    def launch(self, p, dev, config, args: dict, out: str) -> list:
        """The kernel and the ordered sum of splits, or those of columns; ``out``: its output."""
        if p.last:
            g, tile = self.matrices(p)[1], TILES[config.tile]
            blocks = min(ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n) * g.count, dev.sms)
            return sums.launches(p, g, dev, sums.kernel(self.kernel(p, config.tile)),
                                 dict(args, order=order(g, tile, g.count)), dict(blocks=blocks),
                                 fusion.at("epilogue", self.tail(p)))
        return self.summed(p, self.product(p, dev, config, args), out)


def matrix_map(pointer, tensor, dims, step, g, batch_steps, side) -> TensorMap:
    """The map of the matrices of a tensor: two dims, three of the batch; those that do not move are 1."""
    every = (*dims, *(d if s else 1 for d, s in zip(g.batch[:BATCH_DIMS], batch_steps)))
    strides = (step, *batch_steps[:BATCH_DIMS])
    return tiled_map(pointer, tensor, every, strides, (LINE, side, 1, 1, 1))


def tiled_map(pointer, tensor, dims, strides, box) -> TensorMap:
    """A map of a tensor; ``strides`` in elements, of any value where a dim is 1."""
    found = tuple(16 if d == 1 else BYTES * s for d, s in zip(dims[1:], strides))
    return TensorMap(pointer, tensor.dtype.name, dims, found, box, swizzle=128)
