"""``python -m lab``, or ``make lab``: the whole of tests/ and lab/ that needs no GPU, on all cores, and what
it found in lab/records/whole.json: {file: tests that passed, failed, were skipped; seconds}.

Words go to pytest in place of the folders; then no record is left. What needs a GPU is recorded by
tools/gpu_record.py, mutants of all kernels by tools/mutate_ptx.py.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from . import ROOT, record

PLACE = ROOT / "lab" / "records" / "whole.json"


def run(words, report: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-m",
               "not gpu and not timing", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    return subprocess.run([*command, *(words or ["tests", "lab"])], cwd=ROOT,
                          env={**os.environ, "CYDNN_ALL": "1"}).returncode


def files(report: Path) -> dict:
    """{file: counts and seconds} of a report of pytest."""
    found: dict = {}
    for case in ElementTree.parse(report).iter("testcase"):
        row = found.setdefault(case.get("file"), Counter())
        outcome = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "")
        row[{"": "passed", "skipped": "skipped"}.get(outcome, "failed")] += 1
        row["seconds"] += float(case.get("time"))
    return {name: {**row, "seconds": round(row["seconds"], 1)} for name, row in sorted(found.items())}


def main(words) -> int:
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        ended = run(words, report := Path(folder, "report.xml"))
        found = files(report)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    head = dict(sources=record.hash_of(sorted(record.hashes())), seed=os.environ.get("CYDNN_SEED") or "1",
                cores=os.cpu_count(), seconds=round(time.time() - begun))
    text = f'{json.dumps(head)[:-1]}, "files": {{\n{rows}\n}}}}\n'
    print(text) if words else PLACE.write_text(text)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
