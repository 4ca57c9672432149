"""Errata: engines that must not serve some problems, by rows that say when and why; refusals cite the reason.

``errata.json`` ships; ``CYDNN_ERRATA`` names a file whose rows are added. A row is an object:

    engine     index or name                                     "conv_fprop_mma"
    because    the reason, as a refusal has it                   "wrong where k is 8: issue 99"
    versions   of cydnn, bounds joined by commas; left out: all  ">=0.1,<0.2"
    sm         compute capabilities, as numbers; left out: all   [90]
    when       a regular expression that is found in the problem text of what the engine would compute, a line
               for each node joined by " -> "; left out: all     "k8r1s1"
"""
from __future__ import annotations

import json
import operator
import os
import re
from pathlib import Path
from typing import NamedTuple

from .. import __version__, files
from ..engines import BY_INDEX
from ..given import reason, shown
from ..graph import Match
from ..graph.text import problems_of
from ..locks import Bounded
from ..status import BadParam

VARIABLE, MOST_BYTES = "CYDNN_ERRATA", 1 << 20
SHIPPED = Path(__file__).with_name("errata.json")
FIELDS = ("engine", "because", "versions", "sm", "when")
BOUNDS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
_BOUND = re.compile(r"(>=|<=|==|>|<)(\d{1,4}(?:\.\d{1,4}){0,3})")


class Erratum(NamedTuple):
    """A row that counts in this version."""
    engine: object
    sm: tuple
    when: re.Pattern
    because: str

    def hits(self, match: Match, facts) -> bool:
        return (not self.sm or facts.sm in self.sm) and bool(self.when.search(problems_of(match)))


def reasons(engine, match: Match, facts) -> tuple:
    """Why an engine does not take a match: what it says itself, and what is known of it."""
    return (*engine.reasons(match, facts), *known(engine, match, facts))


def accepts(engine, match: Match, facts) -> bool:
    """It takes a match, and nothing is known against that."""
    return engine.accepts(match, facts) and not known(engine, match, facts)


def known(engine, match: Match, facts) -> tuple:
    """What errata say of an engine on a match."""
    return tuple([f"erratum: {row.because}" for row in current().get(engine.index, ())
                  if row.hits(match, facts)])


# ---- Rows ----

def read(path: Path) -> list[Erratum]:
    """The rows of a file that count in this version. Raises BadParam for what is none."""
    try:
        found = json.loads(files.read(path, MOST_BYTES, Path(os.path.realpath(path)).parent))
    except (OSError, ValueError, RecursionError) as error:
        raise BadParam(f"errata: {path} must be a JSON list of rows; got {reason(error)}") from None
    if not isinstance(found, list):
        raise BadParam(f"errata: {path} must be a JSON list of rows; got {shown(found)}")
    rows = [_row(f"errata: {path}: row {number}", row) for number, row in enumerate(found, 1)]
    return [row for row in rows if row is not None]


def _row(where: str, row) -> Erratum | None:
    """A row; None where it is of another version."""
    if not isinstance(row, dict) or not {"engine", "because"} <= row.keys() <= set(FIELDS):
        raise BadParam(f"{where} must have engine and because, and may have versions, sm and when; "
                       f"got {shown(row)}")
    engine = next((e for e in BY_INDEX.values() if row["engine"] in (e.index, e.name)), None)
    if engine is None or isinstance(row["engine"], bool):
        raise BadParam(f"{where}: engine must be the index or name of one; got {shown(row['engine'])}")
    if not isinstance(row["because"], str) or not row["because"].strip():
        raise BadParam(f"{where}: because must be a reason; got {shown(row['because'])}")
    sm = row.get("sm", [])
    if not isinstance(sm, list) or not all(type(number) is int for number in sm):
        raise BadParam(f"{where}: sm must be a list of numbers such as 90; got {shown(sm)}")
    try:
        when = re.compile(row.get("when", ""))
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        raise BadParam(f"{where}: when must be a regular expression; got {shown(row['when'])}: "
                       f"{reason(error)}") from None
    is_of_this = _is_of(where, row.get("versions", ""))
    return Erratum(engine, tuple(sm), when, " ".join(row["because"].split())) if is_of_this else None


def _is_of(where: str, versions) -> bool:
    """This version of cydnn is within all bounds."""
    numbers = lambda text: tuple(map(int, re.findall(r"\d+", text)))
    if not isinstance(versions, str):
        raise BadParam(f"{where}: versions must be a text such as >=0.1,<0.2; got {shown(versions)}")
    for word in filter(None, versions.replace(" ", "").split(",")):
        found = _BOUND.fullmatch(word)
        if found is None:
            raise BadParam(f"{where}: versions must be bounds such as >=0.1,<0.2; got {shown(word)}")
        size = len(numbers(found[2]))
        if not BOUNDS[found[1]]((numbers(__version__) + (0,) * size)[:size], numbers(found[2])):
            return False
    return True


_read = Bounded(2)                               # (file, its stamp) -> {index of an engine: rows}


def current() -> dict:
    """{index of an engine: its rows}, of what ships and what the user adds, read again when the file is
    another. Raises BadParam where the user's file has no rows: what must not be used is never guessed."""
    named = os.environ.get(VARIABLE)
    key = named and (named, files.stamp(Path(named)))
    found = _read.get(key)
    if found is None:
        table: dict = {}
        for row in [*read(SHIPPED), *(read(Path(named)) if named else ())]:
            table.setdefault(row.engine.index, []).append(row)
        found = _read.setdefault(key, Errata(table))
    return found


class Errata(dict):
    """Rows by engine; a key of what is remembered, so two readings are two tables."""
    __hash__ = object.__hash__
    __eq__ = object.__eq__
