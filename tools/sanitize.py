#!/usr/bin/env python3
"""Run tests on a Cython extension that gcc's sanitizers watch.

    python tools/sanitize.py                                 # addresses, undefined behaviour
    python tools/sanitize.py --thread                        # races between threads
    python tools/sanitize.py -- tests/legacy -k tensor       # other tests; words for pytest
    python tools/sanitize.py --whole [--minutes N]           # every file of tests that needs no GPU

The tree is copied into build/sanitize-<kind> and the extension built there with gcc. A report ends
the process that made it, so that its test fails. Leaks are not looked for, as Python keeps what it allocates.
Of races, those between two places of the extension are seen: the interpreter itself is not built for it, but
its locks are.

``--whole``: a process for each file, the folders first that are nearest to the extension. A run goes on
behind those that have ended well in the same state of the sources; its last line says how many that are.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Kind(NamedTuple):
    name: str
    flags: str                   # of gcc
    libraries: tuple             # gcc's, loaded before all others
    env: dict
    tests: list
    prefix: tuple = ()           # of the command


ADDRESS = Kind(
    "address", "-fsanitize=address,undefined -fno-sanitize-recover=undefined", ("libasan.so", "libubsan.so"),
    {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=1",   # tests count bytes
     "UBSAN_OPTIONS": "print_stacktrace=1"},
    ["tests/core", "tests/frontend", "tests/backend", "tests/test_hostile.py", "tests/test_plan.py",
     "tests/legacy/test_descriptors.py", "tests/legacy/test_handle.py", "tests/legacy/test_threads.py",
     "tests/legacy/test_memory.py", "tests/legacy/test_small_arrays.py",
     "--deselect=tests/core/test_cimport.py", "--deselect=tests/core/test_package.py"])
THREAD = Kind(
    "thread", "-fsanitize=thread", ("libtsan.so",),
    {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66 report_signal_unsafe=0"},
    ["tests/core/test_fake_driver.py", "tests/legacy/test_threads.py", "tests/device/ptx/test_threads.py"],
    ("setarch", "-R"))           # at addresses that its shadow memory knows


def copy(tree: Path):
    """What git knows of, as it is now; what was built there before stays, tests that are gone do not."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, tree / name
        if source.is_file() and (not target.exists() or source.stat().st_mtime > target.stat().st_mtime):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for target in (*tree.glob("tests/**/*.py"), *tree.glob("lab/**/*.py")):
        if not (ROOT / target.relative_to(tree)).exists():
            target.unlink()


def library(name: str) -> str:
    """Where gcc has one of its libraries."""
    return subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True,
                          text=True).stdout.strip()


# Folders of tests in the order of --whole; others behind. Tests that build an extension, for which gcc's
# libraries would have to be loaded by the compiler too, are left out.
NEAREST = ("core", "legacy", "backend", "frontend", "", "graph", "heuristics", "engines", "kernels")
# Those of core/fake are run by core/test_fake_driver.py.
LEFT_OUT = ("gpu", "core/fake", "core/test_cimport.py", "core/test_package.py",
            "core/test_extension_watched.py")


def files(tree: Path) -> list[Path]:
    """Every file of tests that needs no GPU, in order."""
    def order(path):
        room = path.parts[0] if len(path.parts) > 1 else ""
        return NEAREST.index(room) if room in NEAREST else len(NEAREST), path
    found = (path.relative_to(tree / "tests") for path in (tree / "tests").rglob("test_*.py"))
    return sorted((p for p in found if not any(p.is_relative_to(each) for each in LEFT_OUT)), key=order)


def state(tree: Path) -> str:
    """A hash of what is run."""
    every = sorted(p for room in ("cydnn", "tests", "lab") for p in (tree / room).rglob("*.py*")
                   if p.suffix != ".pyc")
    return hashlib.sha256(b"".join(p.read_bytes() for p in every)).hexdigest()


def whole(tree: Path, call, end: float) -> int:
    """Each file in a process of its own; 1 when one is red."""
    place, now, wanted, red = tree / "build" / "whole.json", state(tree), files(tree), []
    kept = json.loads(place.read_text()) if place.exists() else {}
    done = kept["done"] if kept.get("state") == now else {}
    for path in (str(p) for p in wanted if str(p) not in done):
        if time.monotonic() > end:
            break
        run = call([f"tests/{path}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        passed = int((re.findall(r"(\d+) passed.* in [\d.]+s", run.stdout) or ["0"])[-1])
        if run.returncode not in (0, 5):         # 5: nothing here runs without a GPU
            print(run.stdout[-6000:])
            red.append(path)
            continue
        done[path] = passed
        place.write_text(json.dumps({"state": now, "done": done}))
        print(f"{path}: {passed} passed", flush=True)
    print(f"{len(done)} of {len(wanted)} files, {sum(done.values())} tests passed; "
          f"red: {', '.join(red) or 'none'}")
    return bool(red)


def main(argv) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thread", action="store_true", help="races between threads")
    parser.add_argument("--whole", action="store_true", help="every file of tests, one after another")
    parser.add_argument("--minutes", type=float, default=1e6, help="of --whole: begin no file behind that")
    parser.add_argument("tests", nargs="*", help="words for pytest in place of the kind's tests, behind --")
    wanted = parser.parse_args(argv)
    kind = THREAD if wanted.thread else ADDRESS
    tree = ROOT / "build" / f"sanitize-{kind.name}"
    copy(tree)
    build = dict(os.environ, CFLAGS=f"{kind.flags} -fno-omit-frame-pointer -g1 -O0",
                 LDFLAGS=kind.flags.split()[0], PYTHONPATH=str(tree))
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tree, env=build,
                   check=True)
    run = dict(os.environ, PYTHONPATH=str(tree), PYTHONMALLOC="malloc",
               LD_PRELOAD=" ".join(map(library, kind.libraries)), **kind.env)
    def call(words, **more):
        return subprocess.run([*kind.prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                               *words], cwd=tree, env=run, **more)
    if wanted.whole:
        return whole(tree, call, time.monotonic() + 60 * wanted.minutes)
    return call(wanted.tests or kind.tests).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
