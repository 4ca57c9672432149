"""``python -m support.hostile``: so many calls, or the rounds of a finding."""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import run, worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.hostile", description=__doc__)
    parser.add_argument("--calls", type=int, default=10 ** 5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=1, help="processes at once")
    parser.add_argument("--progress", help="a file for how far it is")
    parser.add_argument("--rounds", help="these alone, in this process: 5, or 5:9 for 5 to 8")
    parser.add_argument("--api", choices=["v5", "pygraph", "cydnn", "texts", "files", "calls"],
                        help="this alone; calls: all but files")
    args = parser.parse_args()
    api = ["--api", args.api] if args.api else []
    if args.rounds:
        return worker.main(["--seed", str(args.seed), "--rounds", args.rounds, *api])
    found = run.attack(args.calls, args.seed, child=(*run.CHILD, *api), workers=args.workers,
                       say=lambda result: said(result, args.progress))
    print(found.table())
    return 1 if found.findings else 0


def said(result, path):
    text = f"{result.made:,} calls, {len(result.findings)} findings, {result.seconds:.0f} s"
    print(text, file=sys.stderr, flush=True)
    if path:
        Path(path).write_text(result.table() + "\n")


if __name__ == "__main__":
    sys.exit(main())
