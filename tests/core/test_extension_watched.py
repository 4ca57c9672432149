"""The extension under gcc's sanitizers: a share of ``make sanitize``, one of its kinds a run."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FEW = {"address": ["tests/core/test_fake_driver.py", "tests/core/test_pointers.py", "tests/test_hostile.py"],
       "thread": ["tests/core/test_fake_driver.py", "tests/legacy/test_threads.py"]}


@pytest.mark.share(1)
@pytest.mark.parametrize("kind", FEW)
@pytest.mark.skipif(not shutil.which("gcc") or not (ROOT / ".git").exists(), reason="needs gcc and git")
def test_no_report(kind):
    run = subprocess.run([sys.executable, "tools/sanitize.py", *["--thread"][:kind == "thread"], "--",
                          *FEW[kind]], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-4000:]
    extension = next((ROOT / "build" / f"sanitize-{kind}" / "cydnn").glob("_tape*.so"))
    watched = b"__tsan_write8" if kind == "thread" else b"__asan_report_store8"
    assert watched in extension.read_bytes()
