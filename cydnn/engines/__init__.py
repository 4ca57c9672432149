"""Engines: how it is computed. One file an engine; ``TABLE`` holds them by op, in order of preference at equal cost."""
from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .engine import Engine, Match
from .steps import Launch, Memset, Pointer, ReferenceCall, Scalar, Scratch

ROOMS = sorted(m.name for m in iter_modules(__path__) if m.name not in ("engine", "steps", "reference"))
REFERENCE = import_module(".reference", __name__).ENGINES[0]
TABLE: tuple[Engine, ...] = tuple(e for room in ROOMS for e in getattr(import_module(f".{room}", __name__), "ENGINES", ()))
BY_INDEX = {e.index: e for e in (REFERENCE, *TABLE)}


def engines_for(op) -> tuple[Engine, ...]:
    """Every engine for an op class, in table order, the reference last."""
    op = op if isinstance(op, type) else type(op)
    return (*(e for e in TABLE if e.op is op), REFERENCE)
