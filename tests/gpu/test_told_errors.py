"""What breaks on a real GPU is told by name: each program of hostile/broken.py in a process of its own."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hostile import broken

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.gpu
@pytest.mark.parametrize("name", broken.PROGRAMS)
def test_it_is_said(name, family_counts):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    program = [sys.executable, "-m", "support.hostile.broken", name]
    ran = subprocess.run(program, cwd=ROOT / "tests", timeout=150,
                         env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    right = ran.returncode == 0 and ran.stdout.rstrip().endswith("right")
    family_counts[f"told/{name}"] = dict(problems=1, engine_runs=1, wrong=int(not right))
    assert right, f"{ran.returncode}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
