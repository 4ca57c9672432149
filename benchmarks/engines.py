"""Engines against each other on the lines of a problem file, in one run:
``python benchmarks/engines.py winograd [109 115 …] [--out DIR] [--repeat N]``.

Without numbers those that the file's comment lists; the first one that takes a line is what the
others are compared with: their times, and the largest difference of results over the largest value.
Cold L2, the engines in turns. Writes <family>_engines.md under ``--out``.
"""
from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.engines import BY_INDEX                             # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402
from cydnn.status import NotSupported                          # noqa: E402
from run import header                                         # noqa: E402


def cases_of(problem, device, engines) -> dict:
    """{engine: a case} of the engines that take a problem."""
    found = {}
    for engine in engines:
        if BY_INDEX[engine].op.name == problem.op.name:
            try:
                found[engine] = bench.Case(problem, device, Wish(engines=(engine,)))
            except NotSupported as error:
                print(f"{problem}: {error}".splitlines()[0], file=sys.stderr)
            plans.forget()
    return found


def difference(case, other) -> float:
    """Largest difference between two results over the largest value."""
    name = case.problem.op.writes[0]
    a, b = case.output(name), other.output(name)
    return float(np.abs(a - b).max() / np.abs(a).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", help="a file of benchmarks/problems without .txt")
    parser.add_argument("engines", type=int, nargs="*")
    parser.add_argument("--out", default=str(HERE / "results"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeat", type=int, default=15)
    args = parser.parse_args()
    text = (HERE / "problems" / f"{args.family}.txt").read_text()
    listed = re.search(r"engines: ([\d ]+)", text)
    engines = args.engines or [int(n) for n in (listed[1].split() if listed else ())]
    device = devices.get(args.device)
    clock, rows = bench.Clock(device), []
    for line in (l.split("#")[0].strip() for l in text.splitlines()):
        if line:
            rows.append(measured(Problem.parse(line), line, device, clock, engines, args.repeat))
            print(rows[-1], flush=True)
    title = "| problem | engine | us | others: us (times faster, difference) |\n|---|---|---|---|\n"
    page = header(args.family, args, f"python benchmarks/engines.py {args.family}")
    Path(args.out).mkdir(parents=True, exist_ok=True)
    Path(args.out, f"{args.family}_engines.md").write_text(page + title + "\n".join(rows) + "\n")


def measured(problem, line, device, clock, engines, repeat) -> str:
    """A row of the table."""
    cases = cases_of(problem, device, engines)
    for case in cases.values():
        case()
    device.synchronize()
    times = [statistics.median(t) for t in clock.times(list(cases.values()), repeat)]
    (base, first), *others = zip(cases, times)
    said = [f"{BY_INDEX[e]} {us:.1f} ({first / us:.2f}, {difference(cases[base], cases[e]):.0e})"
            for e, us in others]
    return f"| {line} | {BY_INDEX[base]} | {first:.1f} | {'; '.join(said)} |"


if __name__ == "__main__":
    main()
