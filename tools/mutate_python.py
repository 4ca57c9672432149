"""Mutants of the library's Python, and what its tests make of them.

    python tools/mutate_python.py ROOM --count 200 --seed 1   # by all quick tests; --write keeps those needed
    python tools/mutate_python.py --draw 12                   # of every room, by the tests that were kept

Prints who survives, then a line for each room or all.
"""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from lab import python_mutation as mutation


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", nargs="?", choices=list(mutation.ROOMS))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    say = lambda text: print(text, flush=True)
    start = time.time()
    if args.draw:
        verdicts = mutation.draw(args.draw, args.seed, say)
    else:
        verdicts = mutation.whole(args.room, args.count, args.seed, say)
        if args.write:
            mutation.record(verdicts)
    killed = sum(bool(v.by) for v in verdicts)
    say(f"{args.room or 'all rooms'}: {killed} of {len(verdicts)} mutants killed; "
        f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
