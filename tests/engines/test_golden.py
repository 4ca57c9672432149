"""What every engine launches for some problems of benchmarks and contracts, and for some drawn ones: kernels,
grids, parameters.

A grid or an order of tiles may be another and every result right: this sees it. After a change that is meant:
``CYDNN_GOLDEN=write pytest tests/engines/test_golden.py`` writes the golden file anew.
"""
from __future__ import annotations

import itertools
import os
import random
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from cydnn.engines import TABLE
from cydnn.heuristics import Choice
from cydnn.heuristics.choice import Part
from cydnn.layout import Layout
from cydnn.ops import OPS, Problem
from cydnn.status import CydnnError
from cydnn.steps import Launch
from support.check.sums import match_of
from support.draw import draw

GOLDEN = Path(__file__).parent / "golden" / "launches.txt"
PROBLEMS = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"
CARDS, EACH = ("t4", "a100", "h200"), 4          # problems of an engine on each card
DRAWS = 40


@cache
def problems() -> dict:
    """{op: (problems as the hashes of their lines order them: a new one moves few; drawn ones)}"""
    lines = {line.split("#")[0].strip() for path in PROBLEMS.glob("*.txt")
             for line in path.read_text().splitlines()} - {""}
    lines |= {line for name in kernels.names() for line in kernels.get(name).problems}
    found: dict = {}
    for line in sorted(lines, key=lambda line: (crc32(line.encode()), line)):
        problem = Problem.parse(line)
        found.setdefault(type(problem.op), []).append(problem)
    return {op: (found.get(op, []), [draw(op, random.Random(i)) for i in range(DRAWS)]) for op in OPS}


def laid_out(engine, p, facts, config) -> Layout:
    part = Part(p, engine, config, engine.cost(p, facts, config))
    return Layout(Choice(p.graph, p.graph, facts, (part,)))


def said(step) -> str:
    """All that a step says to a device."""
    if not isinstance(step, Launch):
        return repr(step)
    packed = kernels.get(step.kernel).pack(step.args, **step.extra)
    return f"{step.kernel} {packed} {sorted(step.fuse.items())}"


def launches(engine) -> list:
    """[(hash, text)] of what an engine does with the first problems that it takes on each card."""
    found = []
    for card, some in itertools.product(CARDS, problems()[engine.op]):
        facts = KNOWN[card]
        taken = ((problem, match_of(engine, problem)) for problem in some)
        for problem, p in itertools.islice((row for row in taken if engine.accepts(row[1], facts)), EACH):
            try:
                config = engine.best(p, facts)
                layout = laid_out(engine, p, facts, config)
                runs = [said(step) for step in layout.steps]
            except CydnnError as error:          # no configuration fits the card
                config, runs, layout = None, [error.args[0]], None
            text = f"{card} {problem}: {config} {layout and layout.workspace_bytes}\n" + "\n".join(runs)
            found.append((f"{crc32(text.encode()):08x}", text))
    return found


@cache
def golden() -> dict:
    """{engine: the hash of each}"""
    if os.environ.get("CYDNN_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(f"{' '.join([str(e), *(row[0] for row in launches(e))])}\n" for e in TABLE))
    return {engine: hashes for engine, *hashes in map(str.split, GOLDEN.read_text().splitlines())}


@pytest.mark.parametrize("engine", TABLE, ids=str)
def test_launches_are_the_golden_ones(engine):
    got, want = launches(engine), golden().get(str(engine), [])
    assert got, "no problem of benchmarks or contracts is for it"
    wrong = [text for (number, text), old in zip(got, want) if number != old]
    again = "write it anew: CYDNN_GOLDEN=write pytest tests/engines/test_golden.py"
    assert len(got) == len(want) and not wrong, "\n\n".join([*wrong[:2], again])
