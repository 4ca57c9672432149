"""The places in the sources where cydnn calls the driver, and a scenario for each of them."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, NamedTuple

CYDNN = Path(__file__).resolve().parents[3] / "cydnn"
CALL = re.compile(r"\b(?:cu|driver\(\))\.([A-Z]\w+)\(")
SCOPE = re.compile(r"(?:def|class)\b.*?(\w+)\s*(?:[(:]|$)|(?:cdef|cpdef)\b[^=(]*?(\w+)\(")


def of_text(module: str, text: str) -> list[str]:
    """``module.scope.scope Function`` of each call of the driver, in order; one that stands twice, twice."""
    found, scopes = [], []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        scopes = [s for s in scopes if s[0] < indent]
        for name in CALL.findall(line):
            found.append(f"{'.'.join([module, *(s[1] for s in scopes)])} {name}")
        scope = SCOPE.match(re.sub(r"^(?:cdef|cpdef) (?=class)", "", line.strip()))
        if scope:
            scopes.append((indent, scope[1] or scope[2]))
    return found


def in_sources() -> list[str]:
    """Of all modules; those of a .pxd are of its module."""
    return [site for path in sorted(CYDNN.glob("core/_*.p[yx][xd]"))
            for site in of_text(path.stem, path.read_text())]


class Scenario(NamedTuple):
    """``run(world)`` calls the driver at these ``sites``. ``silent``: {driver function: what stays, a kind of
    the fake driver's books or ""}: of destructors, which say nothing. ``raises``: {(function, status): what},
    where it is not what the status always becomes. ``is_narrow``: only the silent ones are to fail here."""
    name: str
    run: Callable
    sites: tuple
    silent: dict
    raises: dict
    is_narrow: bool


SCENARIOS: list[Scenario] = []


def scenario(*sites, raises=None, is_narrow=False, **silent):
    """Decorates a function that reaches these sites."""
    def add(run):
        SCENARIOS.append(Scenario(run.__name__, run, sites, {"CtxPopCurrent": "", **silent}, raises or {},
                                  is_narrow))
        return run
    return add
