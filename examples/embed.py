"""A program of your own around a plan: builds embed_loop.pyx against the installed cydnn, runs it, compares.

    python examples/embed.py [folder]

Needs Cython, setuptools and a C compiler. The loop runs one image after the other in C, through one plan that
was prepared in Python; without a GPU on the NumPy device and on the interpreter of the kernels.
"""
from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

import cydnn

HERE, PACKAGES = Path(__file__).resolve().parent, Path(cydnn.__file__).resolve().parents[1]
SETUP = f'''
from Cython.Build import cythonize
from setuptools import setup
setup(name="embed_loop", ext_modules=cythonize("embed_loop.pyx", language_level=3,
                                               include_path=[{str(PACKAGES)!r}]))
'''


def built(folder: Path):
    """The compiled module."""
    (folder / "embed_loop.pyx").write_bytes((HERE / "embed_loop.pyx").read_bytes())
    (folder / "setup.py").write_text(SETUP)
    made = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder,
                          capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(f"embed: embed_loop.pyx must compile; got\n{made.stdout}{made.stderr}")
    sys.path.insert(0, str(folder))
    return import_module("embed_loop")


def main(folder=None, devices=None) -> float:
    """The largest error, on these devices."""
    here = cydnn.device.default().name
    with tempfile.TemporaryDirectory() as made:
        loop = built(Path(folder or made))
        worst = max(error(loop, name) for name in devices or dict.fromkeys(("numpy", "ptx:sm_80", here)))
    print(f"embed_loop, ABI {loop.ABI_VERSION}: largest error {worst:.1g}")
    return worst


def error(loop, name: str) -> float:
    """Of five images that the loop runs one by one on a device."""
    device, rng = cydnn.device.get(name), np.random.default_rng(0)
    x, w = rng.standard_normal((5, 1, 4, 6, 8), np.float32), rng.standard_normal((8, 4, 3, 3), np.float32)
    y = np.empty((5, 1, 8, 6, 8), np.float32)
    problem = cydnn.Problem.parse("conv_fprop n1c4h6w8 k8r3s3 pad1 f32")
    plan = cydnn.plan.build(cydnn.Graph.single(problem.op, problem.operands), device)
    memory = {"x": (device.alloc(x.nbytes), x[0].nbytes), "w": (device.alloc(w.nbytes), 0),
              "y": (device.alloc(y.nbytes), y[0].nbytes)}
    device.copy_in(memory["x"][0], x)
    device.copy_in(memory["w"][0], w)
    space = device.alloc(max(plan.workspace_bytes, 1))
    pairs = [memory[slot.name] for slot in plan.slots]            # in the order that the plan wants
    loop.run_each(plan, [buffer.ptr for buffer, _ in pairs], [step for _, step in pairs], len(x), space.ptr)
    device.synchronize()
    device.copy_out(memory["y"][0], y)
    return float(max(abs(y[i] - cydnn.conv(x[i], w, padding=1)).max() for i in range(len(x))))


if __name__ == "__main__":
    main(*sys.argv[1:])
