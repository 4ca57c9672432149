"""Lines and branches of the package that its tests run, by room.

    python tools/coverage_python.py tests                        # what pytest is to run; takes twice its time
    python tools/coverage_python.py --kept DIR tests/legacy      # adds to what other runs have left in DIR
    python tools/coverage_python.py --cython tests/core          # lines of the extension, by file

Exits with 1 below 95 % of the lines or 90 % of the branches. cydnn/bench/peer*.py needs a GPU and what it is
compared with, and is left out. The extension is traced with --cython alone: the tree is copied into
build/coverage-cython and the extension built there, so that it calls the tracer on every line (two minutes).
What processes of tests run counts then too; tests that count bytes fail, as the tracer takes some. Tests of
what threads share are left out: the tracer lets other threads in between any two lines. Needs ``pip install
coverage``.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import sanitize

ROOT = Path(__file__).resolve().parents[1]
LINES, BRANCHES = 95.0, 90.0
PARTS = "num_statements", "covered_lines", "num_branches", "covered_branches"
TRACED = ROOT / "build" / "coverage-cython"
UNTRACED = "tests/core/test_shared.py", "tests/core/fake/test_shared.py", "tests/legacy/test_threads.py"
BUILD = """
import runpy, sys
from Cython.Compiler import Options
Options.get_directive_defaults()["linetrace"] = True
sys.argv = ["setup.py", "-q", "build_ext", "--inplace"]
runpy.run_path("setup.py", run_name="__main__")
"""


def coverage(folder, *words, tree=ROOT):
    command = [sys.executable, "-m", "coverage", words[0], f"--rcfile={folder / 'rc'}", *words[1:]]
    return subprocess.run(command, cwd=tree)


def found_in(folder, tree=ROOT) -> dict:
    """{path: what coverage says of the file} of all runs that are in a folder."""
    coverage(folder, "combine", "-q", "--keep", tree=tree)
    whole = (folder / "data").replace(folder / "whole")       # a report of "data" would remove the runs
    coverage(folder, "json", "-q", f"--data-file={whole}", "-o", str(folder / "found.json"), tree=tree)
    return json.loads((folder / "found.json").read_text())["files"]


# ---- Python ----

def python(folder, words) -> int:
    (folder / "rc").write_text(f"[run]\nbranch = True\nparallel = True\nsource = {ROOT / 'cydnn'}\n"
                               f"omit = */bench/peer*.py\ndata_file = {folder / 'data'}\n")
    failed = coverage(folder, "run", "-m", "pytest", "-q", "-m", "not timing", *words).returncode
    every: dict = defaultdict(Counter)           # {room: lines, of them run, branches, of them taken}
    for name, row in found_in(folder).items():
        inside = Path(name).resolve().relative_to(ROOT / "cydnn").parts
        for room in (inside[0] if len(inside) > 1 else "(package)", "all"):
            every[room].update({part: row["summary"][part] for part in PARTS})
    for room, found in sorted(every.items()):
        of = [100 * found[ran] / max(found[there], 1) for there, ran in (PARTS[:2], PARTS[2:])]
        print(f"{room:12} lines {of[0]:5.1f} % of {found[PARTS[0]]:6}   "
              f"branches {of[1]:5.1f} % of {found[PARTS[2]]:5}")
    total = every["all"]
    return int(failed or total["covered_lines"] * 100 < LINES * total["num_statements"]
               or total["covered_branches"] * 100 < BRANCHES * total["num_branches"])


# ---- The extension ----

def build():
    """The extension in a tree of its own; coverage reads the C files beside it."""
    sanitize.copy(TRACED)
    flags = "-DCYTHON_TRACE=1 -DCYTHON_TRACE_NOGIL=1 -O1 -g0"
    subprocess.run([sys.executable, "-c", BUILD], cwd=TRACED, check=True,
                   env={**os.environ, "CFLAGS": flags, "PYTHONPATH": str(TRACED)})
    for path in (TRACED / "build" / "cython").rglob("*.c"):
        shutil.copy2(path, TRACED / path.relative_to(TRACED / "build" / "cython"))
    for name in UNTRACED:
        (TRACED / name).unlink()


def cython(folder, words) -> int:
    build()
    (folder / "rc").write_text("[run]\nplugins = Cython.Coverage\nparallel = True\n"
                               f"include = {TRACED}/cydnn/**/*.pyx\ndata_file = {folder / 'data'}\n")
    (folder / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n")
    env = {**os.environ, "COVERAGE_PROCESS_START": str(folder / "rc"),
           "PYTHONPATH": os.pathsep.join(map(str, (folder, TRACED, TRACED / "tests")))}
    failed = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                             "-m", "not timing", *(word for word in words if word not in UNTRACED)],
                            cwd=TRACED, env=env).returncode
    total: Counter = Counter()
    for name, row in sorted(found_in(folder, TRACED).items()):
        found = row["summary"]
        total.update({part: found[part] for part in PARTS[:2]})
        print(f"{name:24} lines {found['percent_covered']:5.1f} % of {found['num_statements']:4}   "
              f"not run: {' '.join(map(str, row['missing_lines']))}")
    print(f"all: {total['covered_lines']} of {total['num_statements']} lines, "
          f"{100 * total['covered_lines'] / max(total['num_statements'], 1):.1f} %")
    return int(failed or total["covered_lines"] * 100 < LINES * total["num_statements"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--cython", action="store_true")
    args, words = parser.parse_known_args()
    folder = (args.kept or Path(tempfile.mkdtemp())).resolve()
    folder.mkdir(exist_ok=True)
    return (cython if args.cython else python)(folder, words)


if __name__ == "__main__":
    sys.exit(main())
