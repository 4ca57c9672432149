"""Runs the tests in ``fake/`` on a driver that keeps books instead of running kernels,
each file in a process of its own."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The fake driver, built."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("driver") / "libfake_cuda.so"
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread",
                    "-Wl,-soname,libcuda.so.1", str(HERE / "fake_driver.c"), "-o", str(path)], check=True)
    return path


@pytest.mark.parametrize("name", sorted(p.name for p in (HERE / "fake").glob("test_*.py")))
def test_on_the_fake_driver(driver, name):
    root = HERE.parent.parent
    env = {**os.environ, "CYDNN_FAKE_DRIVER": str(driver),
           "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    env = {k: v for k, v in env.items() if not k.startswith("PYTEST_")}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-o",
                          "addopts=", "--confcutdir=tests/core/fake", f"tests/core/fake/{name}"], cwd=root,
                         env=env, capture_output=True, text=True, timeout=120)
    print(run.stdout[-6000:])
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
