"""What every operation and engine takes, refuses and infers, operation by operation.

tests/refusals holds ``edges.txt`` (card | problem | reasons of each engine; of two neighbours one is taken
and the other is not), by lab/provoke.py and by hand, and ``changes.txt`` (line | error, or outputs that
follow; one thing of a problem that the operation takes is another), by lab/provoke_changes.py. What follows
from a declaration alone has no rows: it is drawn here.
"""
from __future__ import annotations

import os
import random
from functools import cache

import pytest

from cydnn.ops import BY_NAME, Problem
from lab.provoke import NAMED, counted, reasons, rows
from lab.provoke_changes import answer, line_of
from support.draw import draw

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


def declared(op, problem):
    """(line, how its error begins): a tensor that is missing, a word or a number that an attribute is not."""
    given = {n: d for n, d in problem.operands.items() if n in op.reads}
    for name in set(op.reads) - op.optional:
        yield line_of(problem.op, {**given, name: None}), f"{op.name}: {name} is missing; operands are "
    words = line_of(problem.op, given).split()
    for name, a in op.attributes().items():
        read = f"problem: '{name}=blue' cannot be read: "
        one = f"{op.name}: {name} must be one of {' '.join(a.accepts) or 'True False 1 0'}; got 'blue'"
        wrong = {"blue": one if a.kind in ("choice", "flag") else read}
        if a.kind in ("int", "ints"):
            wrong[2 ** 63] = f"{op.name}: {name} must be below 2**63"
            if a.lo is not None:
                wrong[a.lo - 1] = f"{op.name}: {name} must be >= {a.lo}"
        for value, text in wrong.items() if a.kind != "rows" else ():
            yield " ".join([*(w for w in words if not w.startswith(f"{name}=")), f"{name}={value}"]), text


@pytest.mark.parametrize("op", OPS)
def test_what_a_declaration_refuses(op):
    problem = draw(BY_NAME[op], random.Random(f"{os.environ['CYDNN_SEED']} declared {op}"))
    wrong = [f"{line}: {want}; now {now}" for line, want in declared(BY_NAME[op], problem)
             if not (now := answer(line)).startswith(want)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", OPS)
def test_an_engine_says_why(op):
    wrong = [f"{engine}: {text}" for name in ("engines", "engines_by_hand")
             for card, engine, line, text in by_op(name, 2)[op]
             if text not in reasons(NAMED[engine], Problem.parse(line), card)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("op", OPS)
def test_neighbours_of_every_edge(op):
    """Of the engines that stand in the row."""
    wrong = [f"{card} | {line}: {want}; now {now}" for name in ("edges", "edges_by_hand")
             for card, line, want in by_op(name, 1)[op]
             if not {*want.split()} <= {*(now := counted(BY_NAME[op], line, card)).split()}]
    assert not wrong, "\n".join(wrong[:20])
