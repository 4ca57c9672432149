"""Rounds in child processes, several at once, until so many calls are made. A child that crashes or hangs is
a finding."""
from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .worker import PLACE, TIMERS

TESTS = Path(__file__).resolve().parents[2]
CHILD = (sys.executable, "-m", "support.hostile.worker")
BATCH = 4000                                     # rounds of a child
SHM = "/dev/shm"                                 # its files are in memory, where there is such a place


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
    is_of_files: bool = False                    # only files are counted
    counts: Counter = field(default_factory=Counter)         # calls by API
    files: dict = field(default_factory=dict)    # kind: (files, refused, beyond 0.1 s, the longest)
    drawn: Counter = field(default_factory=Counter)          # calls by public entry point
    findings: dict = field(default_factory=dict)
    slowest: dict = field(default_factory=dict)
    seconds: float = 0.0
    rounds: int = 0

    @property
    def made(self) -> int:
        return self.counts["files"] if self.is_of_files else self.counts.total()

    def add(self, done: dict):
        """The last row of a child."""
        self.counts.update(done["counts"])
        self.drawn.update(done["drawn"])
        for api, found in done["slowest"].items():
            self.slowest[api] = max(tuple(found), self.slowest.get(api, (0, "")))
        for kind, row in done["files"].items():
            known = self.files.get(kind, (0, 0, 0, 0))
            self.files[kind] = (*map(sum, zip(row[:3], known)), max(row[3], known[3]))

    def table(self) -> str:
        rows = [f"{'API':<26}{'calls':>10}   the longest call, in seconds of the processor"]
        for api, count in sorted(self.counts.items()):
            seconds, call = self.slowest.get(api, (0, ""))
            rows.append(f"{api:<26}{count:>10,}   {seconds:.3f} {call}")
        rows.append(f"{'in all':<26}{self.counts.total():>10,}   in {self.seconds:.0f} s, {self.rounds:,} "
                    f"rounds of seed {self.seed}, {len(self.drawn)} entry points")
        if self.files:
            rows.append(f"{'file':<26}{'read':>10}{'refused':>10}{'> 0.1 s':>10}   the longest")
        rows += [f"{kind:<26}{files:>10,}{refused:>10,}{beyond:>10,}   {longest:.3f}"
                 for kind, (files, refused, beyond, longest) in sorted(self.files.items())]
        rows += [ascii(f"{f.what}\n    {f.example}")[1:-1].replace("\\n", "\n") + f"\n    {f.line}"
                 for f in self.findings.values()]
        return "\n".join([*rows, f"{len(self.findings)} findings"])


def attack(calls: int, seed: int, child=CHILD, batch=BATCH, workers=1, say=lambda result: None) -> Result:
    """So many calls, or a few more."""
    result, start = Result(seed, child[-1] == "files"), time.perf_counter()
    lock, starts = threading.Lock(), itertools.count(0, batch)

    def work():
        while result.made < calls:
            at = next(starts)
            last = at + batch
            while at < last and result.made < calls:
                at = _batch(result, lock, child, at, last, calls - result.made)
                with lock:
                    result.seconds = time.perf_counter() - start
                    say(result)
    with ThreadPoolExecutor(workers) as pool:
        for job in [pool.submit(work) for _ in range(workers)]:
            job.result()
    return result


def line_of(child, seed, rounds) -> str:
    api = f"--api {child[-1]} " if "--api" in child else ""
    return f"python -m support.hostile {api}--seed {seed} --rounds {rounds}"


def ended(lines) -> dict | None:
    """The last row of a child that came to its end."""
    return next((row for row in lines if "counts" in row), None)


def _batch(result, lock, child, first, last, calls) -> int:
    """Rounds ``first`` to ``last`` in one child; returns the round behind the last that ran."""
    code, lines, (number, made), errors = _child(child, result.seed, first, last, calls)
    done = ended(lines)
    for row in lines:
        if "what" in row and row["what"] not in result.findings:
            _add(result, child, first, Finding(row["what"], row["example"], row["round"]))
    behind = done["next"] if done is not None else number + 1
    with lock:
        result.rounds += behind - first
        if done is not None:
            result.add(done)
            return behind
        result.counts["files" if result.is_of_files else "before a crash"] += made
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    what = "hangs" if -code in TIMERS else f"crashes: {name}"
    frames = [row.strip() for row in errors.splitlines() if "/cydnn/" in row][:1]
    if (key := f"{what} {' '.join(frames)}") not in result.findings:
        _add(result, child, first, Finding(key, errors[-1500:], number))
    return behind


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
    room = SHM if os.access(SHM, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hostile", dir=room) as folder:
        place = Path(folder, "place")
        place.write_bytes(PLACE.pack(first, 0))
        words = ["--seed", seed, "--rounds", f"{first}:{last}", "--calls", calls, "--place", place]
        path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
        run = subprocess.run([*child, *map(str, words)], cwd=TESTS, capture_output=True, text=True,
                             errors="replace", start_new_session=True,
                             env={**os.environ, "PYTHONPATH": path, "TMPDIR": folder})
        stood = PLACE.unpack(place.read_bytes()[:PLACE.size])
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return run.returncode, rows, stood, run.stderr
