#!/usr/bin/env python3
"""Run tests on a Cython extension that gcc's sanitizers watch.

    python tools/sanitize.py                                 # addresses, undefined behaviour
    python tools/sanitize.py --thread                        # races between threads
    python tools/sanitize.py -- tests/legacy -k tensor       # other tests; words for pytest

The tree is copied into build/sanitize-<kind> and the extension built there with gcc (a minute). A report ends
the process that made it, so that its test fails. Leaks are not looked for, as Python keeps what it allocates.
Of races, those between two places of the extension are seen: the interpreter itself is not built for it, but
its locks are.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
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
    for target in tree.glob("tests/**/*.py"):
        if not (ROOT / target.relative_to(tree)).exists():
            target.unlink()


def library(name: str) -> str:
    """Where gcc has one of its libraries."""
    return subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True,
                          text=True).stdout.strip()


def main(argv) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--thread", action="store_true", help="races between threads")
    parser.add_argument("tests", nargs="*", help="words for pytest in place of the kind's tests, behind --")
    wanted = parser.parse_args(argv)
    kind = THREAD if wanted.thread else ADDRESS
    tree = ROOT / "build" / f"sanitize-{kind.name}"
    copy(tree)
    build = dict(os.environ, CFLAGS=f"{kind.flags} -fno-omit-frame-pointer -g1 -O1",
                 LDFLAGS=kind.flags.split()[0], PYTHONPATH=str(tree))
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tree, env=build,
                   check=True)
    run = dict(os.environ, PYTHONPATH=str(tree), PYTHONMALLOC="malloc",
               LD_PRELOAD=" ".join(map(library, kind.libraries)), **kind.env)
    return subprocess.run([*kind.prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           *(wanted.tests or kind.tests)], cwd=tree, env=run).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
