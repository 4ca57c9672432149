"""Every sentence that an operation or an engine refuses with: a problem that provokes it.

tests/refusals holds what support/provoke.py found: ``engines.txt`` (card | engine | problem | reason),
``operations.txt`` and ``by_hand.txt`` (line | error), ``edges.txt`` (card | problem | reasons of each engine;
of two neighbours one is taken and the other is not), and ``left.txt``, sentences that nothing there provokes.
"""
from __future__ import annotations

import contextlib

import pytest

import test_hostile
from cydnn.engines import BY_INDEX
from cydnn.ops import Problem
from cydnn.status import CydnnError
from support import refusals
from support.provoke import FOLDER, counted, reasons

NAMED = {e.name: e for e in BY_INDEX.values()}
ROOMS = ("ops", "engines", "fusion", "kernels")
PAGE = refusals.PACKAGE.parent / "docs" / "refusals.md"


def rows(name) -> list[list[str]]:
    return [line.split(" | ", 3 if name == "engines" else 2 if name == "edges" else 1)
            for line in (FOLDER / f"{name}.txt").read_text().splitlines()]


def refused(line) -> str:
    try:
        Problem.parse(line)
    except CydnnError as error:
        return error.args[0]
    return ""


@pytest.fixture(scope="module")
def provoked() -> set:
    """The sentences behind what the rows provoke, each of which must say what its row says."""
    with refusals.Watch() as watch:
        wrong = [f"{engine}: {text}" for card, engine, line, text in rows("engines")
                 if text not in reasons(NAMED[engine], Problem.parse(line), card)]
        wrong += [f"{line}: {text}" for name in ("operations", "by_hand") for line, text in rows(name)
                  if text not in refused(line)]
        for call, _ in test_hostile.CALLS.values():      # their sentences are held there
            with contextlib.suppress(CydnnError, ValueError, TypeError):
                call()
    assert not wrong, "\n".join(wrong[:20])
    return watch.seen


def test_every_sentence_is_provoked(provoked):
    """But for those of left.txt, which may only become fewer."""
    wanted = {s.key: s for s in refusals.sentences() if s.file.split("/")[0] in ROOMS}
    missing = sorted(wanted.keys() - {s.key for s in provoked})
    assert missing == (FOLDER / "left.txt").read_text().splitlines()


def test_neighbours_of_every_edge():
    wrong = [f"{card} | {line}: {want}; now {now}" for card, line, want in rows("edges")
             if (now := counted(Problem.parse(line).op.__class__, line, card)) != want]
    assert not wrong, "\n".join(wrong[:20])


def test_what_is_refused_is_named():
    """The value that was given, or what must be there or not: a sentence without a value says so."""
    bare = [s.key for s in refusals.sentences() if s.file.split("/")[0] in ROOMS and "{" not in s.pattern
            and not any(word in s.pattern for word in ("given", "absent", "without", "got none", "got True",
                                                       "must be", "takes"))]
    assert not bare, "\n".join(bare)


def test_the_page_lists_them():
    """``python -m support.refusals > ../docs/refusals.md`` from tests/ prints it anew."""
    assert PAGE.read_text() == refusals.page()
