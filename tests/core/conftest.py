"""The tests in ``fake/`` need the fake driver in place of libcuda before anything touches CUDA:
``test_fake_driver.py`` runs them in processes of their own."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

collect_ignore = [] if os.environ.get("CYDNN_FAKE_DRIVER") else ["fake"]


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """The fake driver, built."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("driver") / "libfake_cuda.so"
    source = Path(__file__).with_name("fake_driver.c")
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread",
                    "-Wl,-soname,libcuda.so.1", str(source), "-o", str(path)], check=True)
    return path
