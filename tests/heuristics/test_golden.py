"""What is chosen on an H200 for every line of benchmarks/problems.

After a change that is meant: ``CYDNN_GOLDEN=write pytest tests/heuristics/test_golden.py`` writes the golden
file anew; read its diff.
"""
from __future__ import annotations

import os
from pathlib import Path

from cydnn.bench import graph_of
from cydnn.device.facts import KNOWN
from cydnn.heuristics import best
from cydnn.ops import Problem

GOLDEN = Path(__file__).parent / "golden" / "h200.txt"
PROBLEMS = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"


def problems() -> list[str]:
    """Every problem line of every family, once."""
    lines = [line.split("#")[0].strip() for path in sorted(PROBLEMS.glob("*.txt"))
             for line in path.read_text().splitlines()]
    return list(dict.fromkeys(filter(None, lines)))


def chosen(text: str) -> str:
    """problem -> choice, in one line."""
    choice = best(graph_of(Problem.parse(text)), KNOWN["h200"])
    return f"{text} -> {'; '.join(choice.text.splitlines())}"


def test_choices_are_the_golden_ones():
    got = [chosen(text) for text in problems()]
    assert len(got) > 200
    if os.environ.get("CYDNN_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("\n".join(got) + "\n")
    want = GOLDEN.read_text().splitlines()
    wrong = [f"now {line}\nwas {old}" for line, old in zip(got, want) if line != old]
    again = "\nwrite it anew: CYDNN_GOLDEN=write pytest tests/heuristics/test_golden.py"
    assert len(got) == len(want) and not wrong, "\n".join(wrong) + again
