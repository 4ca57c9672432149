"""A wheel in a fresh environment: what tools/try_wheel.py tries works, from the files of the wheel alone."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.toolchain import COMPILER
import try_wheel  # noqa: E402  (of tools/, which the line above puts on the path)

ROOT = Path(__file__).resolve().parents[2]


def test_a_wheel_works_in_a_fresh_environment():
    """Convolutions, an example, an embedding, a rebuilt kernel where there is a compiler."""
    pytest.importorskip("Cython")
    pytest.importorskip("wheel")
    _is_tried("--quick")


def test_a_wheel_of_sources_works_with_another_python():
    """The archive of sources, built in isolation, by the oldest other Python that is here."""
    own = "%d.%d" % sys.version_info[:2]
    others = [v for v in try_wheel.SUPPORTED if v != own and try_wheel.python_of(v)]
    if not others:
        pytest.skip(f"of CPython {', '.join(try_wheel.SUPPORTED)} only {own} is here (PATH, pyenv)")
    assert f"Python {others[0]}: cydnn-" in _is_tried("--python", others[0])
    assert try_wheel.with_others(["3.9.9"]) == ["Python 3.9.9: not on PATH nor in pyenv"]


def _is_tried(*words) -> str:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "try_wheel.py"), *words],
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    for said in ("a convolution on NumPy and on ptx:sm_80", "explain: largest error", "embed_loop, ABI"):
        assert said in done.stdout
    assert ("a kernel compiled by the installed copy" in done.stdout) == (COMPILER is not None)
    return done.stdout


def test_what_a_kernel_is_compiled_from_is_in_the_wheel(tmp_path):
    made = subprocess.run([sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)],
                          cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    sources = {p.relative_to(ROOT / "kernels_src") for p in (ROOT / "kernels_src").rglob("*.cu*")}
    placed = tmp_path / "cydnn" / "_build" / "kernels_src"
    assert sources == {p.relative_to(placed) for p in placed.rglob("*.cu*")} and len(sources) > 100
    rows = json.loads((tmp_path / "cydnn" / "_ptx" / "manifest.json").read_text())["kernels"]
    assert rows and (tmp_path / "cydnn" / "_build" / "tools" / "build_ptx.py").is_file()
