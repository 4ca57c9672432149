"""Lines and branches of the package that its tests run, by room.

    python tools/coverage_python.py tests                        # what pytest is to run; takes twice its time
    python tools/coverage_python.py --kept DIR tests/legacy      # adds to what other runs have left in DIR

Exits with 1 below 95 % of the lines or 90 % of the branches. cydnn/bench/peer*.py needs a GPU and what it is
compared with, and is left out. The extension is not traced. Needs ``pip install coverage``.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES, BRANCHES = 95.0, 90.0
PARTS = "num_statements", "covered_lines", "num_branches", "covered_branches"


def coverage(folder, *words):
    (folder / "rc").write_text(f"[run]\nbranch = True\nparallel = True\nsource = {ROOT / 'cydnn'}\n"
                               f"omit = */bench/peer*.py\ndata_file = {folder / 'data'}\n")
    verb, *rest = words
    command = [sys.executable, "-m", "coverage", verb, f"--rcfile={folder / 'rc'}", *rest]
    return subprocess.run(command, cwd=ROOT)


def rooms(folder) -> dict:
    """{room: how many lines, of them run, branches, of them taken}"""
    coverage(folder, "combine", "-q", "--keep")
    coverage(folder, "json", "-q", "-o", str(folder / "found.json"))
    found: dict = defaultdict(Counter)
    for name, row in json.loads((folder / "found.json").read_text())["files"].items():
        inside = Path(name).resolve().relative_to(ROOT / "cydnn").parts
        for room in (inside[0] if len(inside) > 1 else "(package)", "all"):
            found[room].update({part: row["summary"][part] for part in PARTS})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kept", type=Path)
    args, words = parser.parse_known_args()
    folder = (args.kept or Path(tempfile.mkdtemp())).resolve()
    folder.mkdir(exist_ok=True)
    failed = coverage(folder, "run", "-m", "pytest", "-q", "-m", "not timing", *words).returncode
    every = rooms(folder)
    for room, found in sorted(every.items()):
        of = [100 * found[ran] / max(found[there], 1) for there, ran in (PARTS[:2], PARTS[2:])]
        print(f"{room:12} lines {of[0]:5.1f} % of {found[PARTS[0]]:6}   "
              f"branches {of[1]:5.1f} % of {found[PARTS[2]]:5}")
    total = every["all"]
    return int(failed or total["covered_lines"] * 100 < LINES * total["num_statements"]
               or total["covered_branches"] * 100 < BRANCHES * total["num_branches"])


if __name__ == "__main__":
    sys.exit(main())
