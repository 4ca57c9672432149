"""Runs the tests in ``fake/`` on a driver that keeps books instead of running kernels, in few processes."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALONE = {"test_faults", "test_long"}             # which lose contexts, and which look at the whole process
NAMES = {path.stem for path in (HERE / "fake").glob("test_*.py")}
DEEP = os.environ.get("CYDNN_CALLS") or os.environ.get("CYDNN_PROBLEMS")
GROUPS = {"together": sorted(NAMES - ALONE), **{name: [name] for name in sorted(ALONE)}}


@pytest.mark.parametrize("group", GROUPS)
def test_on_the_fake_driver(driver, group):
    root = HERE.parent.parent
    env = {**os.environ, "CYDNN_FAKE_DRIVER": str(driver),
           "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    env = {k: v for k, v in env.items() if not k.startswith(("PYTEST_", "CYDNN_DEBUG", "CYDNN_LOG"))}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-o",
                          "addopts=", "--confcutdir=tests/core/fake",
                          *[f"tests/core/fake/{name}.py" for name in GROUPS[group]]], cwd=root,
                         env=env, capture_output=True, text=True, timeout=None if DEEP else 1200)
    print(run.stdout[-6000:])
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
