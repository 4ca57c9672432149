"""Depths that are split: the cut into parts, their workspace, the ordered sum of them."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...dtypes import BY_NAME
from ...kernels.expressions import ceil_div
from ...steps import Launch
from ..engine import Config, Engine, first_then, moved_us, powers
from .matrices import MOST, Matrices

PART_BYTES = 64 << 20                            # most workspace for the sums of the splits
SPLIT_US = 0.0199                                # of an ordered sum: a part that it adds
TEAMS = (1, 2, 4)                                # blocks of a cluster that share a depth


@dataclass(frozen=True)
class DepthSplit:
    """A tile and how the depth is cut: ``splits`` parts of ``each``; ``us`` is the estimate."""
    us: float
    tile: object
    splits: int
    each: int


@dataclass(frozen=True)
class TeamCut(DepthSplit):
    """A depth that the blocks of a cluster share."""
    team: int = 1


def cut(g: Matrices, tile, wish: int, unit: int, acc_bytes: int, dev, estimate) -> DepthSplit | None:
    """The cut into about ``wish`` splits; None where it cannot be."""
    elements = g.count * g.m * g.n
    wish = min(wish, max(PART_BYTES // max(elements * acc_bytes, 1), 1))
    each = max(ceil_div(g.k, wish * unit) * unit, unit)
    splits = max(ceil_div(g.k, each), 1)
    if splits > 1 and elements > MOST:
        return None
    sums = sums_us(splits * elements * acc_bytes, splits, dev) if splits > 1 else 0.0
    return DepthSplit(estimate(splits, each) + sums, tile, splits, each)


def cuts(g: Matrices, tile, waves: tuple, blocks: int, unit: int, acc_bytes: int, dev, estimate):
    """Cuts of the depth worth a look: those that give every SM so many blocks; none for 0."""
    for waves in waves:
        wish = min(max(dev.sms * waves // max(blocks, 1), 1), max(g.k // (8 * unit), 1))
        found = cut(g, tile, wish, unit, acc_bytes, dev, estimate)
        if found is not None:
            yield found


def share(depth: int, team: int, step: int) -> int:
    """The part of a depth that each block of a cluster has, in whole steps; 0 where one would have
    nothing."""
    each = ceil_div(ceil_div(depth, team), step) * step
    return each if each * (team - 1) < depth else 0


def sums_us(part_bytes: int, splits: int, dev) -> float:
    """Estimated microseconds of an ordered sum: the parts are written, and read by a launch of its own, those
    of an element one behind the other."""
    return moved_us(2 * part_bytes, dev) + SPLIT_US * splits


class SplitMatmul(Engine):
    """The base. Its knobs are the tile and the number of splits. ``waves`` as in cuts."""
    waves: ClassVar[tuple] = (0, 1, 2)

    def is_one_sum(self, p, g) -> bool:
        """The depth may not be cut. The sum of the splits writes one element at a time, and packed booleans
        are written eight at once."""
        return any(p.graph.tensors[uid].dtype.bits < 8 for uid in p.region.outputs)

    def step(self, p) -> int:
        """The depth of the deepest step: splits begin at whole numbers of them."""
        return 32

    def _unit(self, p, g) -> int:
        step = self.step(p)
        return max(ceil_div(g.k, step), 1) * step if self.is_one_sum(p, g) else step

    def matrices(self, p) -> tuple:
        """(lead of c, Matrices as the kernel walks them)."""
        raise NotImplementedError

    def tiles(self, p):
        """Tiles on offer."""
        return self.knobs[0].values

    def ways(self, p, g, dev, tile) -> tuple:
        """(blocks of one split, bytes of a sum, estimate) for a tile; ``estimate(splits, depth)`` in µs."""
        raise NotImplementedError

    def configs(self, p, dev):
        g, tiles = self.matrices(p)[1], self.tiles(p)
        unit = self._unit(p, g)
        found = [c for tile in tiles for blocks, size, us in [self.ways(p, g, dev, tile)]
                 for c in cuts(g, tile, self.waves, blocks, unit, size, dev, us)]
        best = min(found, key=lambda c: c.us)
        return first_then(Config(tile=best.tile, splits=best.splits), self.usual(p, g))

    def usual(self, p, g):
        """What is on offer whatever is best."""
        splits = powers(ceil_div(g.k, self._unit(p, g)))
        return (Config(tile=t, splits=n) for t in self.tiles(p) for n in splits)

    def cut(self, p, dev, config) -> DepthSplit:
        """The cut that a configuration names; the whole depth where it cannot be."""
        g = self.matrices(p)[1]
        _, size, us = self.ways(p, g, dev, config.tile)
        into = lambda splits: cut(g, config.tile, splits, self._unit(p, g), size, dev, us)
        return into(config.splits) or into(1)

    def cost(self, p, dev, config):
        return dev.launch_us + self.cut(p, dev, config).us


def parts(p, g: Matrices, part_type: str, cut: DepthSplit):
    """Room for the sums of the splits; None where the depth is whole."""
    if cut.splits == 1:
        return None
    return p.scratch(cut.splits * g.count * g.m * g.n * BY_NAME[part_type].bytes)


def with_sum(g: Matrices, product: Launch, sum_kernel: str, splits: int, fuse, out: str = "c") -> list:
    """The product and, where the depth is cut, the ordered sum into its parameter ``out``. The epilogue
    belongs to the last of them."""
    if product.args["parts"] is None:
        return [replace(product, fuse=fuse)]
    total = dict({name: product.args[name] for name in ("beta", "parts", "alpha")}, c=product.args[out],
                 m=g.m, n=g.n, c_m=g.c[0], c_n=g.c[1], batch=g.batch, c_batch=g.c_batch,
                 count=g.count * g.m * g.n, splits=splits)
    return [product, Launch(sum_kernel, total, {}, fuse)]
