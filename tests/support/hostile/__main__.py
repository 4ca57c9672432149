"""``python -m support.hostile``: so many calls, or the rounds of a finding."""
from __future__ import annotations

import argparse
import sys
import time

from . import run, worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m support.hostile", description=__doc__)
    parser.add_argument("--calls", type=int, default=10 ** 5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rounds", help="these alone, in this process: 5, or 5:9 for 5 to 8")
    parser.add_argument("--api", choices=["v5", "pygraph", "cydnn", "texts", "files"], help="this alone")
    args = parser.parse_args()
    api = ["--api", args.api] if args.api else []
    if args.rounds:
        return worker.main(["--seed", str(args.seed), "--rounds", args.rounds, *api])
    found = run.attack(args.calls, args.seed, child=(*run.CHILD, *api),
                       say=lambda text: print(text, file=sys.stderr, flush=True))
    print(found.table())
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
