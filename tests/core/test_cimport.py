"""Another Cython package can cimport cydnn: it calls the driver table and runs a tape without the GIL."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("Cython")
ROOT = Path(__file__).parents[2]

MODULE = '''
from libc.stdint cimport uintptr_t
from cydnn._core cimport Context, Driver, Tape, check, driver, execute_c, pointer_into

def devices():
    cdef Driver *cu = driver()
    cdef int n = 0
    check(cu.DeviceGetCount(&n), "cuDeviceGetCount")
    return n

def ordinal(Context context):
    return context.ordinal

def address(x):
    cdef void *out
    pointer_into(x, &out)
    return <uintptr_t>out

def run(Tape tape, list addresses):
    cdef void *pointers[8]
    for i, a in enumerate(addresses):
        pointers[i] = <void *><uintptr_t>a
    with nogil:
        execute_c(tape, pointers, NULL, NULL, 0, NULL)
'''
SETUP = '''
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(name="downstream", ext_modules=cythonize(
    [Extension("downstream", ["downstream.pyx"], extra_compile_args=["-O0"])], language_level=3))
'''
USE = '''
import ctypes, sys
fake = ctypes.CDLL(sys.argv[1])
import downstream
from cydnn import _core
from cydnn.status import BadParam
context = _core.Context(1)
y = _core.Buffer(context, 64)
tape = _core.Tape(context, [("y", 64, 16, True, False)])
tape.launch(context.load(b".entry k(", "k"), 1, 32, 0, bytes(8), [(0, 0, 0)])
downstream.run(tape, [y.ptr])
assert (downstream.devices(), downstream.ordinal(context), downstream.address(y)) == (2, 1, y.ptr)
assert fake.fake_count(b"cuLaunchKernel") == 1
try:
    downstream.run(tape, [0])
except BadParam as error:
    print(error)
'''


def test_a_downstream_package_builds_and_runs(tmp_path):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    for name, text in (("downstream.pyx", MODULE), ("setup.py", SETUP), ("use.py", USE)):
        (tmp_path / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}

    def call(*command):
        out = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
        assert out.returncode == 0, out.stdout + out.stderr
        return out.stdout
    fake = tmp_path / "libfake_cuda.so"
    call(compiler, "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1",
         str(Path(__file__).parent / "fake_driver.c"), "-o", str(fake))
    call(sys.executable, "setup.py", "build_ext", "--inplace")
    assert call(sys.executable, "use.py", str(fake)).startswith("y: must not be null; got 0")
