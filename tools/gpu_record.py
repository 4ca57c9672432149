#!/usr/bin/env python3
"""The goals that need a GPU (docs/reliability.md): run them, print the table, keep what was found.

    python3 tools/gpu_record.py --out OUT                       # one after the other, as long as they fit
    python3 tools/gpu_record.py --out OUT --seconds 560 R7 R8   # some of them; --all takes no heed of time
    python3 tools/gpu_record.py --merge OUT/record.json …       # write tests/records/<device>.json of those

Each goal is a pytest of its own, so that none stops another; a goal that hangs is ended. OUT/record.json and
OUT/log.txt are there after each goal. ``CYDNN_…`` variables of the tests go deeper (see there).
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
GPU = "tests/gpu/"
SANITIZER = int(os.environ.get("CYDNN_SANITIZER_SECONDS", 75))


class Goal(NamedTuple):
    """``seconds``: expected on an H200 with 16 cores; it is ended after three times that and a minute, or
    when the time of all is over. ``gigabytes``: of a worker; as many work as have room."""
    about: str
    tests: tuple
    seconds: int
    workers: int = 12
    words: tuple = ()                            # for pytest
    least_gpus: int = 1
    gigabytes: int = 0


GOALS = {
    "R23": Goal("errors on the GPU are told by name", ("test_told_errors.py",), 40, 4),
    "R13": Goal("a late producer, only an event between", ("test_streams.py",), 45, 8, ("-k", "producer")),
    "R14": Goal("captured, replayed, updated", ("test_streams.py", "test_fused_graph.py",
                                                "test_frontend_programs.py"), 60, 8,
                ("-k", "replayed or captured")),
    "R4": Goal("gradients are adjoint", ("test_adjoint_identity.py",), 60),
    "R11": Goal("the same bits under load", ("test_streams.py", "test_tile_program.py",
                                               "test_column_sums.py"), 100, 8, ("-k", "same_bits")),
    "R8": Goal("more than 2^31 elements", ("test_large_tensors.py",), 100, 4, gigabytes=34),
    "R7": Goal("compute-sanitizer, four tools", ("test_sanitizer.py",), 60 + SANITIZER, 16),
    "R16": Goal("memory of another device is refused", ("test_two_devices.py",), 60, 4, (), 2),
    "R5": Goal("corners and special values", ("test_corners.py",), 20),
    "R6": Goal("every kernel between guard zones", ("test_every_kernel.py",), 90),
    "R12": Goal("the bits of the interpreter", ("test_bits.py",), 240, 16),
    "R1": Goal("random problems", ("test_random_problems.py", "test_tile_program.py",
                                  "test_column_sums.py"), 160, 12,
               ("-k", "matrix or random_problems or random_graphs")),
    "calls": Goal("what a call and a launch can carry",
                  ("test_host.py", "test_handwritten.py", "test_fused_graph.py",
                   "test_frontend_programs.py"), 40, 4, ("-k", "not captured")),
    "others": Goal("tests beside those of tests/gpu", ("../heuristics", "../legacy", "../test_plan.py",
                                                        "../test_characters.py", "../test_digits.py"), 120),
}
HEAD = ("goal", "", "passed", "failed", "skipped", "problems", "runs", "wrong", "seconds", "besides")
LEFT = (0, 1, len(HEAD) - 1)                     # columns of words
FIGURES = ("problems", "engine_runs", "wrong")


def command(goal: Goal, memory_bytes=float("inf")) -> list:
    """Workers that hang are replaced, tests that fail do not stop others."""
    room = memory_bytes // (goal.gigabytes << 30) if goal.gigabytes else goal.workers
    workers = int(max(min(goal.workers, room), 1))
    return [sys.executable, "-m", "pytest", "-q", "-m", "gpu and not timing", "-p", "no:cacheprovider",
            "-n", str(workers), "--dist", "worksteal", "--timeout", str(min(500, 3 * goal.seconds + 30)),
            "--timeout-method", "thread", *goal.words, *(GPU + test for test in goal.tests)]


def run(name: str, log, words=None, rest=float("inf")) -> dict:
    """The part of a goal; one that says what became of it, where pytest did not. ``rest``: seconds left."""
    goal, began = GOALS[name], time.time()
    limit = min(3 * goal.seconds + 60, rest)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "part.json"
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = words or command(goal, memory_bytes() if goal.gigabytes else 0)
        child = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                 env={**os.environ, "CYDNN_RECORD": str(place), "PYTHONPATH": path},
                                 start_new_session=True)
        try:
            how, is_whole = f"pytest ended with {child.wait(limit)}", place.exists()
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            how, is_whole = f"ended after {limit:.0f} s", False      # a process may have written its own
        found = json.loads(place.read_text()) if is_whole else unfinished(Path(folder), how)
    return {**found, "seconds": round(time.time() - began)}


def unfinished(folder: Path, how: str) -> dict:
    """What is known of a goal that wrote no part: what its processes counted. It is none of a record."""
    families = {}
    for path in folder.glob("*.gw*"):
        families.update(json.loads(path.read_text()))
    return dict(passed=0, failed=1, skipped=0, failures=[f"nothing was recorded: {how}"], families=families)


def row(name: str, part: dict) -> tuple:
    """The figures of a goal, added up; the last cell has those that only it counts."""
    sums = dict.fromkeys(FIGURES, 0)
    for family in part["families"].values():
        for key, value in family.items():
            if isinstance(value, int):
                sums[key] = sums.get(key, 0) + value
    return (name, GOALS[name].about, part["passed"], part["failed"], part["skipped"],
            *(sums.pop(key) for key in FIGURES), part["seconds"],
            " ".join(f"{key}={value}" for key, value in sums.items()))


def table(rows) -> str:
    cells = [list(map(str, cells)) for cells in (HEAD, *rows)]
    wide = [max(len(line[i]) for line in cells) for i in range(len(HEAD))]
    padded = lambda i, cell: cell.ljust(wide[i]) if i in LEFT else cell.rjust(wide[i])
    return "\n".join("  ".join(padded(i, cell) for i, cell in enumerate(line)) for line in cells)


def gpus() -> int:
    """How many the library finds, in a process of its own."""
    code = "from cydnn import device; print(*device.names())"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return told.stdout.count("cuda:")


def memory_bytes() -> int:
    """Of the first GPU, asked for in a process of its own."""
    code = "from cydnn import device; print(device.get('cuda:0').context.total_bytes)"
    return int(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout)


def chosen(names, seconds: float, count: int) -> tuple[list, list]:
    """(goals that fit into the time, in order, those that are left). ``count``: GPUs."""
    fit, left = [], []
    for name in names:
        if GOALS[name].least_gpus > count:
            left.append(name)
        elif GOALS[name].seconds <= seconds:
            seconds -= GOALS[name].seconds
            fit.append(name)
        else:
            left.append(name)
    return fit, left


def measure(args) -> int:
    """Run the goals; 0 when nothing failed. What does not fit is said."""
    out, parts, began = Path(args.out), {}, time.time()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("a") as log:
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace", "-j8"], cwd=ROOT,
                       stdout=log, stderr=subprocess.STDOUT, check=True)
        print(f"built in {time.time() - began:.0f} s", flush=True)
        left, count = list(args.goals or GOALS), gpus()
        while True:
            rest = float("inf") if args.all else args.seconds - (time.time() - began)
            fit, _ = chosen(left, rest, count)
            if not fit:
                break
            left.remove(fit[0])
            log.write(f"\n==== {fit[0]}\n")
            log.flush()
            part = parts[fit[0]] = run(fit[0], log, rest=rest)
            (out / "record.json").write_text(json.dumps(parts, indent=1))
            print(*row(fit[0], part), *part["failures"][:5], sep=" | ", flush=True)
    print("\n" + table(row(name, part) for name, part in parts.items()))
    print(f"{time.time() - began:.0f} s; left: {' '.join(left) or 'nothing'}")
    return int(any(part["failed"] for part in parts.values()))


def merge(paths) -> int:
    """Write the record of these parts, the last of each goal. Those of another state of the sources, or of
    another device, are refused."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from support import record
    parts, now = {}, record.covered_hash()
    for path in paths:
        parts.update(json.loads(Path(path).read_text()))
    known = {name: part for name, part in parts.items() if part.get("covered_sha256") == now}
    for name in parts.keys() - known.keys():
        print(f"{name}: left out: {parts[name].get('failures') or 'of another state of the sources'}")
    if len({part["device"] for part in known.values()}) != 1:
        print(f"--merge: parts must be of one device; got {sorted({p['device'] for p in known.values()})}")
        return 1
    print(table(row(name, part) for name, part in known.items()))
    print(f"written: {record.write(record.joined(known))}; "
          f"not in it: {' '.join(GOALS.keys() - known.keys()) or 'nothing'}")
    return 0


def main(argv=None) -> int:
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("goals", nargs="*", metavar="GOAL", help=" ".join(GOALS))
    read.add_argument("--out", help="folder for record.json and log.txt")
    read.add_argument("--seconds", type=float, default=560, help="begin nothing that would not fit")
    read.add_argument("--all", action="store_true", help="whatever it takes")
    read.add_argument("--merge", nargs="+", metavar="FILE")
    args = read.parse_args(argv)
    unknown = [name for name in args.goals if name not in GOALS]
    if unknown or not (args.out or args.merge):
        read.error(f"goals must be of {' '.join(GOALS)}, and --out or --merge given; got {unknown}")
    return merge(args.merge) if args.merge else measure(args)


if __name__ == "__main__":
    sys.exit(main())
