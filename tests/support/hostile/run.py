"""Rounds in child processes, until so many calls are made. A child that crashes or hangs is a finding."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .worker import PLACE

TESTS = Path(__file__).resolve().parents[2]
CHILD = (sys.executable, "-m", "support.hostile.worker")
BATCH = 4000                                     # rounds of a child


@dataclass
class Finding:
    """What came out, in which round, an example, and the line that repeats it."""
    what: str
    example: str
    round: int
    line: str = ""


@dataclass
class Result:
    seed: int
    counts: Counter = field(default_factory=Counter)         # calls by API
    findings: dict = field(default_factory=dict)
    slowest: dict = field(default_factory=dict)
    seconds: float = 0.0
    rounds: int = 0

    def table(self) -> str:
        rows = [f"{'API':<10}{'calls':>10}   the longest call, in seconds"]
        for api, count in sorted(self.counts.items()):
            seconds, call = self.slowest.get(api, (0, ""))
            rows.append(f"{api:<10}{count:>10,}   {seconds:.3f} {call}")
        total = self.counts.total()
        rows.append(f"{'in all':<10}{total:>10,}   in {self.seconds:.0f} s, {self.rounds:,} rounds of seed "
                    f"{self.seed}")
        rows += [ascii(f"{f.what}\n    {f.example}")[1:-1].replace("\\n", "\n") + f"\n    {f.line}"
                 for f in self.findings.values()]
        return "\n".join([*rows, f"{len(self.findings)} findings"])


def attack(calls: int, seed: int, child=CHILD, batch=BATCH, say=lambda text: None) -> Result:
    """So many calls, or a few more."""
    result, start, at = Result(seed), time.perf_counter(), 0
    while result.counts.total() < calls:
        at = _batch(result, child, at, at + batch, calls - result.counts.total())
        result.rounds, result.seconds = at, time.perf_counter() - start
        say(f"{result.counts.total():,} calls, {len(result.findings)} findings")
    return result


def line_of(child, seed, rounds) -> str:
    api = f"--api {child[-1]} " if "--api" in child else ""
    return f"python -m support.hostile {api}--seed {seed} --rounds {rounds}"


def ended(lines) -> dict | None:
    """The last row of a child that came to its end."""
    return next((row for row in lines if "counts" in row), None)


def _batch(result, child, first, last, calls) -> int:
    """Rounds ``first`` to ``last`` in one child; returns the round behind the last that ran."""
    code, lines, (number, made), errors = _child(child, result.seed, first, last, calls)
    done = ended(lines)
    for row in lines:
        if "what" in row and row["what"] not in result.findings:
            _add(result, child, first, Finding(row["what"], row["example"], row["round"]))
    if done is not None:
        result.counts.update(done["counts"])
        for api, found in done["slowest"].items():
            result.slowest[api] = max(tuple(found), result.slowest.get(api, (0, "")))
        return done["next"]
    result.counts["before a crash"] += made
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    what = "hangs" if "Timeout (" in errors else f"crashes: {name}"
    frames = [row.strip() for row in errors.splitlines() if "/cydnn/" in row][:1]
    if (key := f"{what} {' '.join(frames)}") not in result.findings:
        _add(result, child, first, Finding(key, errors[-1500:], number))
    return number + 1


def _add(result, child, first, finding):
    """A finding that its round alone repeats has that line; else the rounds before it in its process belong
    to it."""
    lines = _child(child, result.seed, finding.round, finding.round + 1)[1]
    has_it = any(row.get("what") == finding.what for row in lines) or (
        ended(lines) is None and finding.what.startswith(("hangs", "crashes")))
    finding.line = line_of(child, result.seed, finding.round if has_it else f"{first}:{finding.round + 1}")
    result.findings[finding.what] = finding


def _child(child, seed, first, last, calls=sys.maxsize) -> tuple:
    """(exit status, rows of its output, where it stood, what it said on stderr)."""
    with tempfile.NamedTemporaryFile() as place:
        place.write(PLACE.pack(first, 0))
        place.flush()
        words = ["--seed", seed, "--rounds", f"{first}:{last}", "--calls", calls, "--place", place.name]
        path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
        run = subprocess.run([*child, *map(str, words)], cwd=TESTS, capture_output=True, text=True,
                             errors="replace", env={**os.environ, "PYTHONPATH": path})
        stood = PLACE.unpack(Path(place.name).read_bytes()[:PLACE.size])
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return run.returncode, rows, stood, run.stderr
