#!/usr/bin/env python3
"""The GPU record, brought up to date: run the tests whose sources have changed since their row, or that have
none, the cheapest first, and write benchmarks/records/<device>.json.

    python3 tools/gpu_record.py --check                   # what is stale in each record; needs no GPU
    python3 tools/gpu_record.py --out OUT                 # run it, write OUT/<device>.json and OUT/part.jsonl
    python3 tools/gpu_record.py --out OUT --seconds 300 --goals R6 R12 --whole
    python3 tools/gpu_record.py --merge OUT/part.jsonl …  # put the cases of parts into benchmarks/records

What was not reached in the time stays stale. ``CYDNN_…`` variables of the tests go deeper (see there).
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__" and "--out" in sys.argv:           # a machine with a GPU starts bare
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace", f"-j{os.cpu_count()}"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from lab import record                       # noqa: E402
from lab.goals import GOALS, LARGE, goal_of  # noqa: E402

WORKERS = 14
HEAD = ("goal", "", "passed", "failed", "skipped", "problems", "engine_runs", "wrong", "seconds", "stale")


def workers(goals, memory_bytes: int) -> int:
    """As many as have room."""
    need = max(GOALS[goal].gigabytes for goal in goals) << 30
    return max(min(WORKERS, memory_bytes // need if need else WORKERS), 1)


def memory_bytes() -> int:
    """Of the first GPU, asked for in a process of its own."""
    code = "from cydnn import device; print(device.get('cuda:0').context.total_bytes)"
    return int(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout)


def run(goals, part: Path, log, seconds: float, whole: bool, words=None) -> str:
    """Run the tests of these goals; how it ended. Each case has a line in ``part`` as soon as it is done."""
    count = workers(goals, memory_bytes()) if words is None else 1
    words = words or [sys.executable, "-m", "pytest", "-q", "-m", "gpu and not timing", "-n", str(count),
                      "--dist", "worksteal", "-p", "no:cacheprovider", "--timeout", "400",
                      "--timeout-method", "thread", "tests"]
    env = {**os.environ, record.PART: str(part), record.GOALS: " ".join(goals),
           "CYDNN_RECORD_WHOLE": str(int(whole)),
           "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    child = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=env,
                             start_new_session=True)
    try:
        return f"pytest ended with {child.wait(seconds)}"
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return f"ended after {seconds:.0f} s"


def table(found: dict) -> str:
    """The figures of a record, a line for each goal."""
    sums = {goal: Counter() for goal in GOALS}
    for row in found["rows"]:
        figures = {**row["counts"], **{key: row[key] for key in (*record.COUNTED, "seconds")}}
        sums[row["goal"]].update(figures | {"stale": len(row["cases"]) * record.is_stale(row)})
    cells = [HEAD, *((goal, GOALS[goal].about, *(str(round(sums[goal][key])) for key in HEAD[2:]))
                     for goal in GOALS if sums[goal])]
    wide = [max(len(line[i]) for line in cells) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(wide[i]) if i < 2 else cell.rjust(wide[i])
                               for i, cell in enumerate(line)) for line in cells)


def failures(found: dict) -> list:
    return [f"{row['test']}[{one}]" for row in found["rows"] for one in row["failures"]]


def measure(args) -> int:
    """Run what is stale or new; 0 when nothing of it failed."""
    out, began = Path(args.out), time.time()
    out.mkdir(parents=True, exist_ok=True)
    part = out / "part.jsonl"
    with (out / "log.txt").open("a") as log:
        for goals in ([g for g in args.goals if g not in LARGE], [g for g in args.goals if g in LARGE]):
            rest = args.seconds - (time.time() - began)
            if goals and rest > 20:
                print(f"{' '.join(goals)}: {run(goals, part, log, rest, args.whole)}", flush=True)
    ran = cases(part)
    print(f"{len(ran)} cases in {time.time() - began:.0f} s")
    for one in [c for c in ran if c["outcome"] == "failed"][:20]:
        print(f"{one['test']}: {one['said']}")
    return write(ran, out) if ran else 0


def cases(part: Path) -> list:
    """The lines of a part; the last may have been cut off."""
    lines = part.read_text().splitlines() if part.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def write(ran: list, folder: Path | None = None) -> int:
    """Put cases into the record of their device, as it stands in benchmarks/records; write it there or to a
    folder."""
    devices = sorted({c["device"] for c in ran})
    if len(devices) != 1:
        print(f"--merge: parts must be of one device; got {devices}")
        return 1
    path = record.path_of(devices[0])
    found = record.merged(record.read(path), ran)
    folder = folder or record.RECORDS
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_text(record.text(found))
    print(table(found))
    for text in failures(found)[:20]:
        print("failed:", text)
    print(f"written: {folder / path.name}")
    return int(any(c["outcome"] == "failed" for c in ran))


def check() -> int:
    """Print what is stale, by goal; 1 if anything is."""
    found = {path: record.read(path) for path in sorted(record.RECORDS.glob("*.json"))}
    for path, each in found.items():
        print(f"{path.stem}\n{table(each)}")
    return int(any(map(record.is_stale, (row for each in found.values() for row in each["rows"]))))


def main(argv=None) -> int:
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("--goals", nargs="+", metavar="GOAL", choices=GOALS, default=list(GOALS),
                      help=" ".join(GOALS))
    read.add_argument("--out", help="folder for the record, part.jsonl and log.txt")
    read.add_argument("--seconds", type=float, default=560, help="end what runs after so many")
    read.add_argument("--whole", action="store_true", help="run what is not stale, too")
    read.add_argument("--check", action="store_true")
    read.add_argument("--merge", nargs="+", metavar="FILE")
    args = read.parse_args(argv)
    if not (args.check or args.out or args.merge):
        read.error("one of --check, --out, --merge must be given")
    if args.check:
        return check()
    return write([c for f in args.merge for c in cases(Path(f))]) if args.merge else measure(args)


if __name__ == "__main__":
    sys.exit(main())
