"""What the tests of this folder share: the tools as modules, small kernel sources, a compiler or a skip."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC, PTX = ROOT / "kernels_src", ROOT / "ptx"
sys.path.insert(0, str(ROOT / "tools"))
import build_ptx  # noqa: E402
import contract  # noqa: E402
import packs  # noqa: E402

try:
    COMPILER = build_ptx.Compiler()
except contract.ContractError:
    COMPILER = None
needs_nvcc = pytest.mark.skipif(COMPILER is None, reason="nvcc 13.0 is not installed")
needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")

SCALE = """/*@kernel
name   = "scale_{T}"
about  = "y = alpha * x"
T      = ["f32", "f16"]
params = ["const T* x", "T* y", "int count", "Acc_T alpha"]
block  = [128, 1, 1]
grid   = ["ceil_div(count, 128)", 1, 1]
needs  = ["count >= 1"]
@*/
#include "lib/types.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(const T* x, T* y, int count, Acc_T alpha) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < count) y[i] = from_acc<T>(alpha * to_acc(x[i]));
}
"""


def tree(folder, **files):
    """A kernels_src with our lib/ and the given files of family "test"; returns its path."""
    shutil.copytree(SRC / "lib", folder / "lib")
    (folder / "test").mkdir()
    for name, text in files.items():
        (folder / "test" / f"{name}.cu").write_text(text)
    return folder


def variants(tmp_path, text):
    """The variants of a contract."""
    src = tree(tmp_path / "src", kernel=text)
    return contract.read(src / "test" / "kernel.cu", src, build_ptx.FLAGS)


def run(*arguments):
    """build_ptx.py as a user runs it: (exit code, what it printed)."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "build_ptx.py"), *map(str, arguments)],
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
