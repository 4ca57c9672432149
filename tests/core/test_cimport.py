"""Another Cython package can cimport cydnn: it calls the driver table and runs a tape without the GIL."""
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cydnn._core import Executor
from cydnn.status import BadParam

pytest.importorskip("Cython")
ROOT = Path(__file__).parents[2]
ABI = 1, "dd8681944e881418"             # of the declarations without comments

MODULE = '''
from libc.stdint cimport uintptr_t
from cydnn._core cimport Context, Driver, Tape, check, driver, execute_c, pointer_into
cimport cydnn

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

def run_plan(plan, list addresses):
    cdef cydnn.Executor executor = cydnn.executor(plan)
    cdef void *pointers[8]
    for i, a in enumerate(addresses):
        pointers[i] = <void *><uintptr_t>a
    with nogil:
        cydnn.run(executor, pointers, NULL, NULL)
    return executor
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
class Plan:
    executable, slots, workspace_bytes = tape, ["y"], 0
found = downstream.run_plan(Plan, [y.ptr])
assert fake.fake_count(b"cuLaunchKernel") == 2 and (found.slot_count, found.plan) == (1, Plan)
for call in (lambda: downstream.run_plan(Plan, [0]), lambda: downstream.run_plan(tape, [y.ptr]),
             lambda: downstream.run(tape, [0])):
    try:
        call()
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
    null, no_plan, again = call(sys.executable, "use.py", str(fake)).splitlines()
    assert null == again and null.startswith("y: must not be null; got 0")
    assert no_plan.startswith("executor: plan must be a built one, such as cydnn.conv.prepare(x, w).plan; "
                              "got Tape")


def test_a_program_of_another_abi_is_refused(tmp_path):
    """Built against older declarations: a copy of them with another number."""
    for path in (ROOT / "cydnn").rglob("*.pxd"):
        copy = tmp_path / "cydnn" / path.relative_to(ROOT / "cydnn")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text().replace("ABI_VERSION = 1", "ABI_VERSION = 0"))
    (tmp_path / "old.pyx").write_text("cimport cydnn\ndef of(plan):\n    return cydnn.executor(plan)\n")
    (tmp_path / "setup.py").write_text(SETUP.replace("downstream", "old"))
    made = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    (tmp_path / "cydnn").rename(tmp_path / "declarations")
    words = "import old, cydnn.plan\ntry: old.of(None)\nexcept cydnn.BadParam as error: print(error)"
    said = subprocess.run([sys.executable, "-c", words], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])})
    assert said.stdout.startswith("executor: the program must be built against ABI 1 of cydnn; got one built "
                                  "against ABI 0: build it again"), said.stderr


@pytest.mark.parametrize("words, sentence", [
    ((None,), "executor: plan must be a built one, such as cydnn.conv.prepare"),
    ((None, 0), "executor: the program must be built against ABI 1 of cydnn; got one built against ABI 0")])
def test_what_an_executor_refuses(words, sentence):
    with pytest.raises(BadParam, match=sentence):
        Executor(*words)


def test_the_abi_version_moves_with_its_declarations():
    """Another text of _embed.pxd is another version: move both, here and there."""
    text = (ROOT / "cydnn" / "core" / "_embed.pxd").read_text()
    declared = "\n".join(line.split("#")[0].rstrip() for line in text.split('"""')[2].splitlines())
    assert (hashlib.sha256(declared.encode()).hexdigest()[:16] == ABI[1]
            and f"ABI_VERSION = {ABI[0]}\n" in text)
