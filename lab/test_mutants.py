"""Would a fault in what decides be seen: in what operations take and infer, in what engines refuse and
launch, in what is chosen, in what the front end infers? Mutants of the Python are drawn, six of each room,
and run by tests that have killed mutants of the same function (lab/python_mutation.py). So many must be
killed that it may be nine of ten of all: of thirty 23, of three hundred 257.

``CYDNN_MUTANTS`` draws more of each room; tools/mutate_python.py takes all tests of a room.
"""
from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab import python_mutants, python_mutation as mutation, sampling

ROOT = Path(__file__).resolve().parents[1]
EACH = int(os.environ.get("CYDNN_MUTANTS") or (60 if sampling.ALL else 4))
KILLED, CHANCE = 0.9, 0.01                       # of all; that a draw has fewer than ``least``

SAMPLE = '''
def of(x, least=3):
    """A docstring."""
    if x is None or x.rank > 2 and not x.count:
        raise ValueError(f"{x.rank + 1} > 2")
    return min(x.rank, 1) + second(x, least)
'''


def least(count: int) -> int:
    """So many of a draw are killed, but for one draw in a hundred, where nine of ten of all are."""
    below = 0.0
    for killed in range(count + 1):
        below += math.comb(count, killed) * KILLED ** killed * (1 - KILLED) ** (count - killed)
        if below > CHANCE:
            return killed


def test_drawn_mutants_are_killed():
    assert least(30) == 23 and least(300) == 257
    command = [sys.executable, "tools/mutate_python.py", "--draw", str(EACH), "--seed",
               os.environ["CYDNN_SEED"]]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.search(r"all rooms: (\d+) of (\d+) mutants killed", said.stdout)
    assert found and int(found[2]) == EACH * len(mutation.ROOMS), said.stdout + said.stderr
    assert "; 0 fail as it is" in said.stdout, said.stdout
    assert int(found[1]) >= least(int(found[2])), f"{' '.join(command)}\n{said.stdout}"


@pytest.mark.parametrize("kind, changed", [
    ("comparison", {"x.rank > 2 -> x.rank >= 2", "x.rank > 2 -> x.rank <= 2", "x is None -> x is not None"}),
    ("dropped sign", {"not x.count -> x.count"}),
    ("constant", {"2 -> 3", "2 -> 1", "1 -> 2"}),
    ("arithmetic", {"min(x.rank, 1) + second(x, least) -> min(x.rank, 1) - second(x, least)"}),
    ("another function", {"min(x.rank, 1) -> max(x.rank, 1)"}),
    ("swapped arguments", {"second(x, least) -> second(least, x)"}),
])
def test_every_kind(kind, changed, tmp_path):
    """And nothing of what a sentence says, of docstrings and defaults."""
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    found = list(python_mutants.mutants(path))
    assert {f"{m.old} -> {m.new}" for m in found if m.kind == kind} == changed
    assert all(m.make().co_name == "of" for m in found) and len({m.text for m in found}) == len(found)


def test_what_is_equivalent_is_there():
    """With a reason each."""
    every = {m.text for room in mutation.ROOMS for m in mutation.mutants_of(room, with_equivalent=True)}
    assert not mutation.equivalent().keys() - every and all(mutation.equivalent().values())
