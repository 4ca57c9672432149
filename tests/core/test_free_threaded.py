"""A Python without a GIL: the extension says that it needs none, and its tests pass where threads run at
once.
CYDNN_FREE_THREADED: such a Python (3.13t or newer) that has what pyproject.toml lists under ``test``."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("CYDNN_FREE_THREADED")
NEEDED = pytest.mark.skipif(not PYTHON, reason="needs CYDNN_FREE_THREADED=<a Python without a GIL>")
IMPORT = "import sys, cydnn._core; sys.exit(sys._is_gil_enabled())"
TESTS = ("core/test_shared.py", "core/test_fake_driver.py", "core/test_plan_table.py",
         "core/test_pointers.py", "core/test_numbers.py", "legacy/test_threads.py", "legacy/test_handle.py",
         "legacy/test_descriptors.py", "device/ptx/test_threads.py", "device/test_buffer.py", "test_plan.py")


@pytest.fixture(scope="module")
def tree():
    """A copy of the sources, with the extension built for that Python."""
    sys.path.insert(0, str(ROOT / "tools"))
    import sanitize
    found = ROOT / "build" / "free-threaded"
    sanitize.copy(found)
    subprocess.run([PYTHON, "setup.py", "-q", "build_ext", "--inplace"], cwd=found, check=True,
                   env={**os.environ, "PYTHONPATH": str(found)})
    return found


def run(tree, *words, **env):
    done = subprocess.run([PYTHON, *words], cwd=tree, capture_output=True, text=True, timeout=3600,
                          env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'tests'}", **env})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]


@NEEDED
def test_importing_turns_no_gil_on(tree):
    """Python does so, and warns, for an extension that does not say that it needs none."""
    run(tree, "-W", "error", "-c", IMPORT)


@NEEDED
@pytest.mark.parametrize("path", TESTS)
def test_threads_at_once(tree, path):
    rounds = os.environ.get("CYDNN_ROUNDS", "2000")
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{path}", PYTHON_GIL="0",
        CYDNN_ROUNDS=rounds)
