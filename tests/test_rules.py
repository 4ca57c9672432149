"""What every operation and engine takes, refuses and infers, operation by operation.

tests/refusals holds ``edges.txt`` (card | problem | reasons of each engine; of two neighbours one is taken
and the other is not), by lab/provoke.py and by hand, and ``changes.txt`` (line | error, or outputs that
follow; one thing of a problem that the operation takes is another), by lab/provoke_changes.py.
"""
from __future__ import annotations

from functools import cache

import pytest

from cydnn.ops import BY_NAME, Problem
from lab.provoke import NAMED, counted, reasons, rows
from lab.provoke_changes import answer

OPS = list(BY_NAME)


@cache
def by_op(name, cell) -> dict:
    """{operation: the rows of a file whose line, in this cell, is of it}"""
    found: dict = {op: [] for op in OPS}
    for row in rows(name):
        found.setdefault(row[cell].split()[0], []).append(row)
    return found


@pytest.mark.parametrize("op", OPS)
def test_one_change_of_a_problem(op):
    wrong = [f"{line}: {want}; now {now}" for line, want in by_op("changes", 0)[op]
             if (now := answer(line)) != want]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("op", OPS)
def test_an_engine_says_why(op):
    wrong = [f"{engine}: {text}" for name in ("engines", "engines_by_hand")
             for card, engine, line, text in by_op(name, 2)[op]
             if text not in reasons(NAMED[engine], Problem.parse(line), card)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", OPS)
def test_neighbours_of_every_edge(op):
    wrong = [f"{card} | {line}: {want}; now {now}" for name in ("edges", "edges_by_hand")
             for card, line, want in by_op(name, 1)[op] if (now := counted(BY_NAME[op], line, card)) != want]
    assert not wrong, "\n".join(wrong[:20])
