#!/usr/bin/env python3
"""Run tests on a Cython extension that the address and the undefined-behaviour sanitizer watch.

    python tools/sanitize.py                                 # the core, a fake driver, hostile calls, handles
    python tools/sanitize.py tests/legacy -k tensor          # other tests; words for pytest

The tree is copied into build/sanitize and the extension built there with gcc (a minute). A report ends the
process that made it, so that its test fails; leaks are not looked for, as Python keeps what it allocates.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "sanitize"
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O1"
TESTS = ["tests/core", "tests/frontend", "tests/backend", "tests/test_hostile.py", "tests/test_plan.py",
         "tests/legacy/test_descriptors.py", "tests/legacy/test_handle.py", "tests/legacy/test_threads.py",
         "tests/legacy/test_memory.py", "tests/legacy/test_small_arrays.py",
         "--deselect=tests/core/test_cimport.py", "--deselect=tests/core/test_package.py"]


def copy():
    """What git knows of, as it is now; what was built there before stays."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, TREE / name
        if source.is_file() and (not target.exists() or source.stat().st_mtime > target.stat().st_mtime):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def library(name: str) -> str:
    """Where gcc has one of its libraries."""
    return subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True,
                          text=True).stdout.strip()


def main(argv) -> int:
    copy()
    build = dict(os.environ, CFLAGS=FLAGS, LDFLAGS="-fsanitize=address,undefined", PYTHONPATH=str(TREE))
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=TREE, env=build,
                   check=True)
    run = dict(os.environ, PYTHONPATH=str(TREE), PYTHONMALLOC="malloc",
               LD_PRELOAD=" ".join(map(library, ("libasan.so", "libubsan.so"))),
               ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1")
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(argv or TESTS)],
                          cwd=TREE, env=run).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
