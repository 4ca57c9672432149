"""The extension under gcc's sanitizers, which is a share of ``make sanitize``, and the life of a handle under
valgrind, which a plain run has alone: the sanitizers build the extension anew."""
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

from lab import sampling

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
FEW = {"address": ["tests/core/test_fake_driver.py", "tests/core/test_pointers.py", "tests/test_hostile.py"],
       # test_faults has one thread at a time
       "thread": [*(f"tests/core/test_fake_driver.py::test_on_the_fake_driver[{group}]"
                    for group in ("together", "test_long")), "tests/legacy/test_threads.py"]}


def sanitized(kind, _):
    if not shutil.which("gcc") or not (ROOT / ".git").exists():
        pytest.skip("needs gcc and git")
    run = subprocess.run([sys.executable, "tools/sanitize.py", *["--thread"][:kind == "thread"], "--",
                          *FEW[kind]], cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-4000:]
    extension = next((ROOT / "build" / f"sanitize-{kind}" / "cydnn" / "core").glob("_tape*.so"))
    watched = b"__tsan_write8" if kind == "thread" else b"__asan_report_store8"
    assert watched in extension.read_bytes()


def lived(_, driver):
    """No bad access, nothing lost. Reads of what nothing has set are not looked for: CPython's 0 has a digit
    that nothing sets, and it goes everywhere."""
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    run = subprocess.run([
        "valgrind", "-q", "--error-exitcode=9", "--undef-value-errors=no", "--leak-check=full",
        "--errors-for-leak-kinds=definite", f"--suppressions={HERE / 'valgrind.supp'}", sys.executable,
        str(HERE / "life.py"), str(driver)], capture_output=True, text=True, timeout=3600,
        env={**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0, run.stderr[-8000:]
    launches, *live = map(int, run.stdout.split())
    assert launches == 6 and live == [0] * 5


KINDS = {"address": sanitized, "thread": sanitized, "valgrind": lived}


@pytest.mark.parametrize("kind", KINDS if sampling.ALL else ["valgrind"])
def test_no_report(kind, driver):
    KINDS[kind](kind, driver)


def test_the_whole_goes_on_where_it_ended(tmp_path, capsys):
    """What is near the extension comes first, tests of GPUs not at all; what was red is run again."""
    tool = SimpleNamespace(**run_path(str(ROOT / "tools" / "sanitize.py")))
    for name in ("gpu/test_a.py", "core/fake/test_b.py", "engines/test_c.py", "test_d.py", "core/test_e.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(name)
    (tmp_path / "build").mkdir()
    runs, red, none = [], {"tests/test_d.py"}, {"tests/engines/test_c.py"}

    def call(words, **_):
        runs.extend(words)
        said = f"{len(words[0])} passed, 1 skipped" if words[0] not in none else "1 skipped"
        record = "GPU record x: 4112 passed, 0 failed; it covers these sources"
        return SimpleNamespace(stdout=f"{record}\n{said} in 1.00s", returncode=words[0] in red)
    ran = lambda end=math.inf: (tool.whole(tmp_path, call, end), runs.copy(), runs.clear())[:2]
    assert ran(-math.inf) == (0, [])
    assert ran() == (1, ["tests/core/test_e.py", "tests/test_d.py", "tests/engines/test_c.py"])
    assert capsys.readouterr().out.endswith("2 of 3 files, 20 tests passed; red: test_d.py\n")
    red.clear()
    assert ran() == (0, ["tests/test_d.py"])
    (tmp_path / "tests" / "test_d.py").write_text("changed")
    assert len(ran()[1]) == 3
