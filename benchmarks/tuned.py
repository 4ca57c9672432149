"""The table of measured choices that ships for a card:
``python benchmarks/tuned.py [family …] [--seconds N] [--most N] [--out DIR]``.

Tunes the lines of problem files, a line of each file in turn, until the time is over, and writes the rows
into cydnn/heuristics/shipped/<card>.txt; lines whose rows count are passed over, so another run goes on.
Prints how far mode A was off, and what it predicted beside what was measured. ``--check --device h200`` needs
no GPU: it prints the lines without a row that counts.
"""
from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn import bench, device as devices       # noqa: E402
from cydnn.device.facts import KNOWN             # noqa: E402
from cydnn.graph import canonical                # noqa: E402
from cydnn.heuristics import best, tuned         # noqa: E402
from cydnn.ops import Problem                    # noqa: E402
from cydnn.status import CydnnError              # noqa: E402

FAMILIES = ("matmul_shapes", "conv_shapes", "conv_resnet50_bf16", "attention", "norm", "conv_shapes_more",
            "attention_bwd", "decode", "moving", "softmax", "conv_resnet50_f16", "depthwise", "grouped")


def lines_of(families) -> list[str]:
    """A line of each file in turn."""
    texts = [(HERE / "problems" / f"{name}.txt").read_text() for name in families]
    files = [[line.split("#")[0].strip() for line in text.splitlines()] for text in texts]
    found = chain.from_iterable(zip_longest(*([line for line in file if line] for file in files)))
    return list(dict.fromkeys(line for line in found if line))


def table_of(facts) -> Path:
    """The file of a card."""
    return tuned.SHIPPED / f"{re.sub('[^a-z0-9]+', '_', facts.name.lower())}.txt"


def missing(lines, facts, path: Path) -> list[str]:
    """The lines that a table has no row for that counts on a card; facts without a driver take any."""
    known, found = tuned.read(path).rows, []
    for line in lines:
        graph = bench.graph_of(Problem.parse(line))
        rows = known.get(canonical.problem_of(graph), {}).items()
        fits = [row for card, row in rows if not card.differs(facts)]
        with suppress(CydnnError):
            if any(tuned.choice_of_row(row, graph, facts, lambda: best(graph, facts)) for row in fits):
                continue
        found.append(line)
    return found


def measured(lines, device, args, path: Path) -> list[dict]:
    """A row for each line that was measured in time."""
    rows, end = [], time.monotonic() + args.seconds
    for line in missing(lines, device.facts, path):
        begun = time.monotonic()
        if begun > end:
            break
        try:
            found = bench.tuned(line, device, args.most)
        except CydnnError as error:
            print(f"{line}: {error.args[0].splitlines()[0]}", flush=True)
            continue
        found.save(path)
        rows.append(dict(found.as_data(), line=line, seconds=time.monotonic() - begun,
                         off=found.default.choice.us / found.default.us - 1,
                         wrong=[f"{run.choice.text}: {run.wrong}" for run in found.runs
                                if run.wrong and run.has_room]))
        print(f"{rows[-1]['gain']:.3f}  {rows[-1]['seconds']:.1f} s  {rows[-1]['off']:+.0%}  {line}: "
              f"{found.best.us:.2f} us, {'; '.join(found.best.choice.text.splitlines())}", flush=True)
    return rows


def check(lines, name: str):
    """Print the lines that the package's table has no row for that counts."""
    facts = KNOWN[name] if name in KNOWN else devices.get(name).facts
    found = missing(lines, facts, table_of(facts))
    print(*found, f"{len(lines) - len(found)} of {len(lines)} problems have a row that counts", sep="\n")


def summary(rows) -> str:
    slower = [row for row in rows if row["gain"] > 1.05]
    off = statistics.median(abs(row["off"]) for row in rows)
    return (f"{len(rows)} problems, {sum(len(row['runs']) for row in rows)} choices, "
            f"{sum(len(row['wrong']) for row in rows)} wrong; mode A is more than 5 % slower in "
            f"{len(slower)}; predicted within {off:.0%} at the median; "
            f"{max(row['seconds'] for row in rows):.1f} s the longest")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", default=FAMILIES)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--out", help="a folder for the table and tuned.json, in place of the package's")
    parser.add_argument("--check", action="store_true", help="print the lines without a row that counts")
    args = parser.parse_args()
    if args.check:
        return check(lines_of(args.family or FAMILIES), args.device)
    device = devices.get(args.device)
    path = Path(args.out) / table_of(device.facts).name if args.out else table_of(device.facts)
    rows = measured(lines_of(args.family or FAMILIES), device, args, path)
    if args.out and rows:
        (Path(args.out) / "tuned.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{device.facts.name}: {summary(rows) if rows else 'nothing was measured'}; {path}")


if __name__ == "__main__":
    main()
