#!/usr/bin/env python3
"""Mutate shipped PTX, one instruction at a time, and see what on the interpreter kills
the mutants: is the test any good?

    python tools/mutate_ptx.py                               # one variant of every kernel source,
                                                               24 mutants each and every barrier and wait
    python tools/mutate_ptx.py softmax_fwd_block_f16_4096 --sample 2000
    python tools/mutate_ptx.py --markdown lab/records/mutation.md --json mutation.json

A mutant counts when the unchanged kernel runs its instruction in some case. The cases are the problems
of the kernel's contract, problems of the GPU matrix that launch it, and problems near the contract's,
plain and with a blend. Exits with 1 when a bar is missed.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "device" / "ptx")]

from support.draw import variants
from lab import mutation, mutation_report  # noqa: E402


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="kernels; none: one variant of every source")
    parser.add_argument("--target", help="sm_75, sm_80 …; none: sm_80, or what the kernel has")
    parser.add_argument("--sample", type=int, default=24,
                        help="mutants of a kernel beside its barriers and waits (default 24)")
    parser.add_argument("--seed", type=int, default=0, help="which sample")
    parser.add_argument("--draws", type=int, default=4,
                        help="random problems of a kernel beside those of its contract (default 4)")
    parser.add_argument("--near", type=int, default=40, help="problems near those of the contract, for "
                                                             "mutants that survive the others (default 40)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--read", metavar="FILE", action="append", default=[],
                        help="take what an earlier run wrote with --json; runs only what is named")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    args = parser.parse_args(argv)
    scores = [s for path in args.read for s in mutation_report.read(json.loads(Path(path).read_text()))]
    command = ("python tools/mutate_ptx.py"
               + "".join(f" {w}" for w in (sys.argv[1:] if argv is None else argv)))
    names = args.names or ([] if args.read else variants.representatives())
    with ProcessPoolExecutor(args.jobs) as pool:
        running = [pool.submit(_score, name, args.target, args.sample, args.seed, args.draws, args.near)
                   for name in names]
        for each in as_completed(running):
            score, seconds = each.result()
            scores = sorted([*scores, score], key=lambda s: (s.source, s.kernel))
            print(f"{mutation_report.line(score)}  {seconds:.0f} s", flush=True)
            _write(args, scores, command)                    # as far as it got
    _write(args, scores, command)
    print(mutation_report.summary(scores))
    return 0 if mutation_report.passes(scores) else 1


def _score(*args):
    """(score, seconds) of one kernel."""
    start = time.process_time()
    return mutation.score(*args), time.process_time() - start


def _write(args, scores, command):
    if args.markdown:
        Path(args.markdown).write_text(mutation_report.markdown(scores, command))
    if args.json:
        Path(args.json).write_text(json.dumps(mutation_report.rows(scores), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
