"""What a run of tests takes. ``make test``: a fixed set that has each kind of test, and all about the
sources that have changed since their row in a GPU record (record.py), or have none. ``CYDNN_ALL=1``, which
``make lab`` sets: the whole.

Where tests are many of one kind, ``@pytest.mark.share(n)`` or ``of(items, n, key)`` says how many are much;
the fixed set has ``CYDNN_SHARE`` times that (an eighth), and one at least. Which they are, and what random
problems are drawn, follows from the seed alone: ``CYDNN_SEED`` is 1 unless it is set, and printed.
"""
from __future__ import annotations

import math
import os
import random
from functools import lru_cache

from cydnn import kernels
from cydnn.engines import TABLE, Engine
from cydnn.ops import BY_NAME, Op

from . import record

ALL = os.environ.get("CYDNN_ALL", "") not in ("", "0")
PART = float(os.environ.get("CYDNN_SHARE") or 1 / 8)


def begin():
    """A run that was given no seed has the usual one, before it starts processes."""
    os.environ["CYDNN_SEED"] = os.environ.get("CYDNN_SEED") or "1"


def words() -> str:
    """How this run is repeated."""
    seed = f"CYDNN_SEED={os.environ['CYDNN_SEED']}"
    return f"the whole, {seed}" if ALL else (
        f"the fixed set of {seed}, and what is about {len(changed())} sources that changed since the records "
        "(`make lab` takes the whole)")


# ---- What a test is about ----

@lru_cache(maxsize=None)
def changed() -> frozenset:
    """Sources of kernels, engines and operations that no row of a record has as they are."""
    rows = [row for path in record.RECORDS.glob("*.json") for row in record.read(path)["rows"]]
    fresh = {source for row in rows if not record.is_stale(row) for source in row["covers"]}
    return frozenset().union(*_sources().values()) - fresh


@lru_cache(maxsize=None)
def _sources() -> dict:
    """{name of a kernel, a source of kernels, an engine or an operation: its files from the root}"""
    found = {}
    for name in kernels.names():
        source = kernels.get(name).source
        found[name] = found[source] = frozenset({f"kernels_src/{source}"})
    found |= {engine.name: record.files_of(type(engine)) for engine in TABLE}
    return found | {name: record.files_of(op) for name, op in BY_NAME.items()}


def about(value) -> frozenset:
    """The files of what a value names: a kernel, an engine, an operation, a line or a tuple of these."""
    if isinstance(value, str):
        return _sources().get(value) or _sources().get(value.partition(" ")[0], frozenset())
    if isinstance(value, (tuple, list)):
        return frozenset().union(*map(about, value))
    kind = value if isinstance(value, type) else type(value)
    if issubclass(kind, (Engine, Op)) and kind not in (Engine, Op):
        return record.files_of(kind)
    return frozenset().union(*(about(getattr(value, part)) for part in ("engine", "op", "problem")
                               if type(value).__module__.startswith("cydnn.") and hasattr(value, part)))


def _is_about_changes(item) -> bool:
    """By its parameters; where these name nothing, by the engines and operations that its file names."""
    found = about(tuple(item.callspec.params.values())) if hasattr(item, "callspec") else frozenset()
    return not changed().isdisjoint(found or _of_module(item.module))


@lru_cache(maxsize=None)
def _of_module(module) -> frozenset:
    return frozenset().union(*(about(v) for v in vars(module).values() if isinstance(v, (Engine, Op))))


# ---- What is taken ----

def kept(items) -> set:
    """The collected tests without those of ``@pytest.mark.share(n)`` that are not taken."""
    functions = {}
    for item in items:
        if marker := item.get_closest_marker("share"):
            functions.setdefault((item.path, item.originalname), (marker.args[0], []))[1].append(item)
    left_out = {item for (path, name), (count, found) in functions.items()
                for item in set(found) - _taken(found, count, f"{path.name} {name}", _is_about_changes)}
    return set(items) - left_out


def of(items, count: int, key: str) -> list:
    """Those of the items that are taken, in their order: ``CYDNN_SHARE`` times ``count``, one at least, the
    same for one seed and key, and what is about changed sources; or all."""
    items = list(items)
    numbers = _taken(range(len(items)), count, key, lambda i: not changed().isdisjoint(about(items[i])))
    return [items[i] for i in sorted(numbers)]


def _taken(items, count, key, is_about_changes) -> set:
    count = max(math.ceil(PART * count), 1)
    if ALL or count >= len(items):
        return set(items)
    rng = random.Random(f"{os.environ.get('CYDNN_SEED', '')} {key}")
    return {*rng.sample(items, count), *filter(is_about_changes, items)}
