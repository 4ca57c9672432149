"""What a plain run takes a share of, drawn anew for every change of the library: the seed is a hash of its
sources, so that two runs of one state agree. The run's last lines name it. ``CYDNN_SEED=<number>`` draws
another share, ``CYDNN_SHARE=<number>`` takes so many times the counts that tests name, a third where it
is not set, and ``CYDNN_ALL=1`` the whole.

Only what is right as a whole may be drawn from: a share saves time, it hides nothing.
"""
from __future__ import annotations

import math
import os
import random

from . import record

ALL = os.environ.get("CYDNN_ALL", "") not in ("", "0")
PART = float(os.environ.get("CYDNN_SHARE") or 1 / 3)


def begin():
    """A run that was given no seed has that of the sources, before it starts processes."""
    if not os.environ.get("CYDNN_SEED"):
        os.environ["CYDNN_SEED"] = str(int(record.hash_of(sorted(record.hashes()))[:12], 16) % 10 ** 9)


def words() -> str:
    """How this run is repeated."""
    return f"shares: CYDNN_SEED={os.environ['CYDNN_SEED']}, CYDNN_ALL=1 takes the whole"


def kept(items) -> set:
    """The collected tests without those that ``@pytest.mark.share(n)`` leaves out: n of a function's stay."""
    functions = {}
    for item in items:
        if marker := item.get_closest_marker("share"):
            functions.setdefault((item.path, item.originalname), (marker.args[0], []))[1].append(item)
    drawn = {(path, name): of(found, count, f"{path.name} {name}")
             for (path, name), (count, found) in functions.items()}
    left_out = {item for key, (_, found) in functions.items() for item in set(found) - set(drawn[key])}
    return set(items) - left_out


def of(items, count: int, key: str) -> list:
    """The plain run's part of ``count`` of the items in their order, one at least, or all; the same for one
    seed and key."""
    items, count = list(items), max(math.ceil(PART * count), 1)
    if ALL or count >= len(items):
        return items
    rng = random.Random(f"{os.environ.get('CYDNN_SEED', '')} {key}")
    return [items[i] for i in sorted(rng.sample(range(len(items)), count))]
