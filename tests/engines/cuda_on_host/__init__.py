"""Runs the CUDA source of a kernel on the host, thread by thread (prelude.h), from the Launches of an engine's plan.

Slow and exact: for small problems, without a GPU. Needs g++ and the CUDA headers of nvcc.
"""
from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
SRC, HERE = ROOT / "kernels_src", Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))
import contract                                                                      # noqa: E402
from cydnn.engines.steps import Memset, Scratch                                      # noqa: E402
from cydnn.kernels import Kernel                                                     # noqa: E402


@lru_cache(None)
def cuda_include() -> str | None:
    """The folder of cuda_fp16.h, or None when there is no compiler to test with."""
    if not (shutil.which("nvcc") and shutil.which("g++")):
        return None
    said = subprocess.run(["nvcc", "--dryrun", "-c", "none.cu"], capture_output=True, text=True).stderr
    folders = [f for f in re.findall(r'-I([^"\s]+)', said) if (Path(f) / "cuda_fp16.h").is_file()]
    return folders[0] if folders else None


@lru_cache(None)
def variants(family: str) -> dict:
    """name -> contract.Variant of every kernel of a family."""
    found = [v for path in sorted((SRC / family).glob("*.cu")) for v in contract.read(path, SRC, "")]
    return {v.name: v for v in found}


@lru_cache(None)
def _work() -> Path:
    work = Path(mkdtemp(prefix="cuda_on_host"))
    (work / "lib").mkdir()
    for name in ("types.cuh", "math.cuh", "reduce.cuh"):       # the real ones, without the inline PTX of load_once
        text = (SRC / "lib" / name).read_text()
        (work / "lib" / name).write_text(re.sub(r"template <> DEVICE \w+ load_once\(.*?\n}\n", "", text, flags=re.S))
    return work


@lru_cache(None)
def kernel(name: str, family: str = "conv") -> Kernel:
    """The kernel as cydnn/kernels.py sees it, from its contract alone."""
    return Kernel(name, {**variants(family)[name].contract, "images": {}}, Path())


@lru_cache(None)
def _compiled(name: str, family: str):
    variant = variants(family)[name]
    text = re.sub(r"extern __shared__ ([\w ]+) (\w+)\[\];", r"\1* \2 = reinterpret_cast<\1*>(host::memory);", (SRC / variant.source).read_text())
    params = [f"*({p['type']}*)(block + {p['offset']})" for p in variant.contract["params"]]
    text += f"""
extern "C" void run(char* block, int gx, int gy, int gz, int threads, int smem, int late) {{
    host::launch(gx, gy, gz, threads, smem, late, [=] {{ KERNEL({", ".join(params)}); }});
}}"""
    source, out = _work() / f"{name}.cpp", _work() / f"{name}.so"
    source.write_text(variant.macros() + text)
    said = subprocess.run(["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-include", str(HERE / "prelude.h"), "-I", str(_work()), "-I", str(HERE),
                           "-I", str(SRC / family), "-I", str(SRC), "-I", cuda_include(), str(source), "-o", str(out)],
                          capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    return ctypes.CDLL(str(out)).run


def run(steps, tensors: dict, scalars: dict, *, late: bool, family: str = "conv") -> None:
    """Carry out a plan. ``tensors``: uid -> array of raw storage (written in place); ``scalars``: name -> number."""
    areas = {}

    def address(pointer):
        if isinstance(pointer.uid, Scratch):
            if pointer.uid not in areas:
                areas[pointer.uid] = aligned(pointer.uid.bytes)
                areas[pointer.uid].view(np.uint8)[:] = 0x7e
            return areas[pointer.uid].ctypes.data + pointer.addend
        return tensors[pointer.uid].ctypes.data + pointer.addend

    for step in steps:
        assert not isinstance(step, Memset)
        packed = kernel(step.kernel, family).pack(step.args, **step.extra)
        block = bytearray(packed.data) + bytearray(128)
        for offset, pointer in packed.pointers:
            block[offset:offset + 8] = address(pointer).to_bytes(8, "little")
        for offset, kind, scalar in packed.scalars:
            number = np.float64(scalars.get(scalar.key[1], scalar.default)).astype({"f32": np.float32, "f64": np.float64}[kind])
            block[offset:offset + number.nbytes] = number.tobytes()
        buffer = (ctypes.c_char * len(block)).from_buffer(block)
        _compiled(step.kernel, family)(buffer, *packed.grid, packed.block[0], packed.smem, int(late))


def aligned(count_bytes: int) -> np.ndarray:
    """Raw storage, aligned to 256 bytes like the workspace."""
    raw = np.zeros(count_bytes + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start:start + count_bytes]
