"""Engine against engine on every line of a problem file, each in its own choice of configuration:
``python benchmarks/engines.py fft 112 113 109 [--configs] [--json FILE]``.

The last engine is the one that the others are compared with. Cold L2, median of ``--repeat`` runs, the
engines in turns; first every result is compared with that of the last engine. ``--configs``: every
configuration of the others too, the fastest of each is shown.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn import bench, device as devices, plan as plans      # noqa: E402
from cydnn.engines import BY_INDEX                             # noqa: E402
from cydnn.heuristics import Wish                              # noqa: E402
from cydnn.ops import Problem                                  # noqa: E402


def case_of(problem, device, engine, config=None):
    plans.forget()
    return bench.Case(problem, device, Wish(engines=(engine,), config=config))


def result(case):
    case()
    case.device.synchronize()
    return {name: case.output(name) for name in case.problem.op.writes}


def difference(got, want) -> float:
    """The largest difference over the rms of the wanted values."""
    rms = {name: np.sqrt(np.mean(np.square(values))) or 1.0 for name, values in want.items()}
    return max(float(np.abs(got[name] - want[name]).max() / rms[name]) for name in want)


def row_of(line, device, clock, engines, args) -> dict:
    problem = Problem.parse(line)
    cases = {e: case_of(problem, device, e) for e in engines}
    want = result(cases[engines[-1]])
    row = {"problem": line, "error": {e: difference(result(cases[e]), want) for e in engines[:-1]}}
    times = clock.times(list(cases.values()), args.repeat)
    row["us"] = {e: round(statistics.median(t), 1) for e, t in zip(cases, times)}
    row["config"] = {e: str(c.plan.parts[0].config) for e, c in cases.items()}
    row["model_us"] = {e: round(c.plan.parts[0].us, 1) for e, c in cases.items()}
    if args.configs:
        row["all"] = {}
        for e, case in list(cases.items())[:-1]:
            part = case.plan.parts[0]
            ways = list(BY_INDEX[e].configs(part.match, device.facts))
            row["all"][e] = {str(c): round(statistics.median(clock.times(
                [case_of(problem, device, e, c)], args.repeat)[0]), 1) for c in ways}
    return row


def show(row, last) -> str:
    words = [f"{row['problem']:<48}"]
    for e, us in row["us"].items():
        ratio = "" if e == last else f" {row['us'][last] / us:5.2f}x error {row['error'][e]:.0e}"
        words.append(f"{e}: {us:9.1f} us (model {row['model_us'][e]:9.1f}){ratio}")
    for e, ways in row.get("all", {}).items():
        best = min(ways, key=ways.get)
        words.append(f"best of {e}: {best} {ways[best]}")
    return "  ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family")
    parser.add_argument("engines", nargs="+", type=int)
    parser.add_argument("--configs", action="store_true")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json")
    args = parser.parse_args()
    device = devices.get("cuda:0")
    clock, rows = bench.Clock(device), []
    for line in (HERE / "problems" / f"{args.family}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            rows.append(row_of(line, device, clock, args.engines, args))
            print(show(rows[-1], args.engines[-1]), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
