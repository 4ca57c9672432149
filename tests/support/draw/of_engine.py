"""Problems that an engine takes on a card: those of the kernels' contracts, those near them, drawn ones."""
from __future__ import annotations

import random
import zlib
from functools import lru_cache
from typing import Iterator

from cydnn import kernels
from cydnn.ops import Problem

from . import alone
from . import draw
from .neighbours import neighbours

DRAWS, TRIES, FLOPS = 5000, 400, 1e7


@lru_cache(maxsize=None)
def of_contracts() -> dict:
    """{op class: problems}, the small ones first."""
    found: dict = {}
    for line in dict.fromkeys(line for name in kernels.names() for line in kernels.get(name).problems):
        problem = Problem.parse(line)
        found.setdefault(type(problem.op), []).append(problem)
    return {op: sorted(mine, key=lambda p: p.flops + p.bytes) for op, mine in found.items()}


@lru_cache(maxsize=64)
def listed(engine, facts) -> tuple:
    """Those of contracts that it takes, the small ones first."""
    return tuple([p for p in of_contracts().get(engine.op, ()) if engine.accepts(alone.match(p), facts)])


def problems(engine, facts, seed="", wanted=lambda problem: True) -> Iterator[Problem]:
    """Different ones that are wanted: those of contracts, drawn ones, and near to these, in turns, as long as
    there are more: of most engines there is no end."""
    rng = random.Random(zlib.crc32(f"{engine.name} {seed}".encode()))
    mine = list(listed(engine, facts))
    rng.shuffle(mine)
    lines, seen = [str(p) for p in mine], set()  # what is found has neighbours too
    near = (p for line in lines for p in neighbours(line, TRIES, FLOPS))
    ways = [iter(mine), (draw(engine.op, rng) for _ in range(DRAWS)), near, near]
    while ways:
        for way in list(ways):
            found = next((p for p in way if str(p) not in seen and wanted(p)
                          and engine.accepts(alone.match(p), facts)), None)
            if found is None:
                ways.remove(way)
            else:
                seen.add(str(found))
                lines.append(str(found))
                yield found


def some(engine, facts, count: int) -> list:
    """A few of all sizes, the largest of its contracts' among them; drawn ones where it has none."""
    mine = listed(engine, facts)
    if mine:
        return [mine[-1 - i * len(mine) // count] for i in range(min(count, len(mine)))]
    return [p for p, _ in zip(problems(engine, facts), range(count))]
