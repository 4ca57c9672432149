"""Stream-K of Hopper's tile program (kernels_src/tile/wgmma_shares.cuh): how blocks share steps of tiles."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Iterator, NamedTuple

from ...kernels.expressions import ceil_div
from .split_k import DepthSplit

PIECES, LEAST = 4, 2                             # most blocks of a tile, least steps of a block
ROUNDS = [(n, pieces) for n in (1, 2, 3) for pieces in (2, 3, 4)]    # of whole tiles, before an even share
LANES = 8                                        # most of them
STREAMS = (1, 2)                                 # of equal shares; of a part of one tile each


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
class Stream(DepthSplit):
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


def lanes_of(rows: int, band: int) -> list[int]:
    """In how many lanes tiles of one column can go abreast: they are as many in every band."""
    last = rows - (rows - 1) // band * band
    of = last if rows <= band else gcd(band, last)
    return [n for n in range(1, LANES + 1) if of % n == 0]
