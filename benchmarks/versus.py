"""Two trees of cydnn against each other on one GPU:
``python benchmarks/versus.py OTHER [families] --out FILE``.

Each tree runs in a process of its own and answers problem lines with times; the two take turns, line by line
and round by round, so that they share the clock and the temperature. The ratio is the other tree's median
over ours: above 1 ours is faster.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def serve():
    """Answer lines from stdin with a JSON list of microseconds each, or a sentence."""
    from cydnn import bench, device, plan
    from cydnn.ops import Problem
    gpu = device.get("cuda:0")
    clock, cases = bench.Clock(gpu), {}
    for row in map(json.loads, sys.stdin):
        try:
            if row["line"] not in cases:
                cases.clear()                    # one at a time: both processes hold their buffers
                plan.forget()
                cases[row["line"]] = bench.Case(Problem.parse(row["line"]), gpu)
            found = clock.times([cases[row["line"]]], row["repeat"])[0]
        except Exception as error:               # the other tree goes on
            found = f"{type(error).__name__}: {error}"
        print(json.dumps(found), flush=True)


class Tree:
    """A process that serves times from one tree."""

    def __init__(self, root: Path):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=root, env={**os.environ, "PYTHONPATH": str(root)})

    def times(self, line: str, repeat: int):
        self.process.stdin.write(json.dumps(dict(line=line, repeat=repeat)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def lines(families) -> list[str]:
    """The problem lines of the named files, each once."""
    files = sorted((HERE / "benchmarks" / "problems").glob("*.txt"))
    chosen = [f for f in files if not families or any(name in f.stem for name in families)]
    texts = [line.split("#")[0].strip() for f in chosen for line in f.read_text().splitlines()]
    return list(dict.fromkeys(t for t in texts if t))


def compare(line: str, ours: Tree, other: Tree, rounds: int, repeat: int) -> dict:
    """A row: medians of both and their ratio."""
    found = {"ours": [], "other": []}
    for k in range(rounds):
        turns = [("ours", ours), ("other", other)]
        for name, tree in turns if k % 2 else turns[::-1]:
            times = tree.times(line, repeat)
            if isinstance(times, str):
                return dict(problem=line, note=f"{name}: {times}")
            found[name] += times
    us = {name: statistics.median(times) for name, times in found.items()}
    return dict(problem=line, us=us["ours"], other_us=us["other"], ratio=us["other"] / us["ours"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("other", nargs="?", type=Path, help="the root of the other tree, built in place")
    parser.add_argument("families", nargs="*", help="parts of the names of benchmarks/problems/*.txt")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve()
    ours, other = Tree(HERE), Tree(args.other.resolve())
    rows = []
    for line in lines(args.families):
        rows.append(compare(line, ours, other, args.rounds, args.repeat))
        if rows[-1].get("ratio", 1) < 0.97:      # a second look, with more rounds
            rows[-1] = compare(line, ours, other, 3 * args.rounds, args.repeat)
        print(f"{rows[-1].get('ratio', float('nan')):6.3f}  {line}  {rows[-1].get('note', '')}", flush=True)
    good = [r["ratio"] for r in rows if "ratio" in r]
    worst = min((r for r in rows if "ratio" in r), key=lambda r: r["ratio"])
    print(f"{len(good)} of {len(rows)} lines; geometric mean {statistics.geometric_mean(good):.4f}, "
          f"worst {worst['ratio']:.3f} at {worst['problem']}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
