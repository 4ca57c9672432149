"""A wheel in a fresh environment: what tools/try_wheel.py tries works, from the files of the wheel alone."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.toolchain import COMPILER

ROOT = Path(__file__).resolve().parents[2]


def test_a_wheel_works_in_a_fresh_environment():
    """Convolutions, an example, an embedding, a rebuilt kernel where there is a compiler."""
    pytest.importorskip("Cython")
    pytest.importorskip("wheel")
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "try_wheel.py"), "--quick"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for said in ("a convolution on NumPy and on ptx:sm_80", "explain: largest error", "embed_loop, ABI"):
        assert said in done.stdout
    assert ("a kernel compiled by the installed copy" in done.stdout) == (COMPILER is not None)


def test_what_a_kernel_is_compiled_from_is_in_the_wheel(tmp_path):
    made = subprocess.run([sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)],
                          cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    sources = {p.relative_to(ROOT / "kernels_src") for p in (ROOT / "kernels_src").rglob("*.cu*")}
    placed = tmp_path / "cydnn" / "_build" / "kernels_src"
    assert sources == {p.relative_to(placed) for p in placed.rglob("*.cu*")} and len(sources) > 100
    rows = json.loads((tmp_path / "cydnn" / "_ptx" / "manifest.json").read_text())["kernels"]
    assert rows and (tmp_path / "cydnn" / "_build" / "tools" / "build_ptx.py").is_file()
