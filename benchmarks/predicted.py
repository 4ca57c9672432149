"""The estimate of mode A beside the measured time, for every row of the tables in benchmarks/results:
``python benchmarks/predicted.py [family…] [--card h200]``. Needs no GPU.

Rows of another engine or of no time are left out. Written to results/predicted.md.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn import bench, heuristics              # noqa: E402
from cydnn.device.facts import KNOWN             # noqa: E402
from cydnn.ops import Problem                    # noqa: E402
from cydnn.status import CydnnError              # noqa: E402


def compared(family: str, facts) -> list:
    """(problem, engine, predicted, measured) of a family's rows whose plan is one part."""
    found = []
    for row in json.loads((HERE / "results" / f"{family}.json").read_text()):
        try:
            choice = heuristics.best(bench.graph_of(Problem.parse(row["problem"])), facts)
        except (CydnnError, KeyError):
            continue                             # a table of another script
        if row.get("us") and row["engine"] == choice.name:
            found.append((row["problem"], choice.name, choice.us, row["us"]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*")
    parser.add_argument("--card", default="h200")
    args = parser.parse_args()
    families = args.family or sorted(p.stem for p in (HERE / "problems").glob("*.txt")
                                     if (HERE / "results" / f"{p.stem}.json").exists())
    lines, wrong, all_of = [], [], []
    for family in families:
        rows = compared(family, KNOWN[args.card])
        if not rows:
            continue
        off = [abs(predicted / measured - 1) for *_, predicted, measured in rows]
        all_of += off
        lines.append(f"| {family} | {len(rows)} | {statistics.median(off):.0%} | {max(off):.0%} |")
        wrong += [f"| {problem} | {engine} | {predicted:.1f} | {measured:.1f} | {predicted / measured:.2f} |"
                  for problem, engine, predicted, measured in rows]
        print(lines[-1], flush=True)
    head = (f"# Predicted beside measured, {args.card}\n\n{len(all_of)} rows; predicted within "
            f"{statistics.median(all_of):.0%} of measured at the median.\n\nCommand: `python "
            "benchmarks/predicted.py`\n\n| Family | Rows | Off at the median | At most |\n"
            "|---|--:|--:|--:|\n")
    text = "\n".join([*lines, "\n| Problem | Engine | Predicted us | Measured us | Ratio |",
                      "|---|---|--:|--:|--:|", *wrong]) + "\n"
    (HERE / "results" / "predicted.md").write_text(head + text)
    print(f"{len(all_of)} rows, {statistics.median(all_of):.1%} at the median")


if __name__ == "__main__":
    main()
