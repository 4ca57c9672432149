"""A driver that lacks a function: what needs it fails with a sentence, everything else works. Each in a
process of its own, on the fake driver."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cydnn.core.symbols import SYMBOLS, missing, version

HERE = Path(__file__).parent
USE = '''
import ctypes, json, sys
import numpy as np
fake = ctypes.CDLL(sys.argv[1])
from cydnn import _core

context = _core.Context(0)
kernel = context.load(b".entry k(", "k")
data, x, y = np.arange(16, dtype=np.uint8), _core.Buffer(context, 16), _core.Buffer(context, 16)


def launch(*args, **attributes):
    tape = _core.Tape(context, [("x", 16, 16, False, False), ("y", 16, 16, True, False)])
    tape.launch(kernel, 1, 32, 0, bytes(16), [(0, 0, 0), (8, 1, 0)], **attributes)
    tape.execute((x, y))


def memset():
    tape = _core.Tape(context, [("y", 16, 16, True, False)])
    tape.memset(0, 0, 16, 1)
    tape.execute((y,))


def events():
    start, end, stream = _core.Event(context), _core.Event(context), _core.Stream(context)
    start.record(), end.record()
    end.synchronize(), stream.wait(end), end.elapsed(start)


def pixels():
    context.tensor_map(6, (8, 4, 1), (16, 64), (8, 4), (1, 1, 1), 0, False, ((0,), (0,)))


def maps():
    block = context.tensor_map(7, (4,), (), (4,), (1,), 0, False)
    tape = _core.Tape(context, [("x", 16, 16, False, False)])
    tape.launch(kernel, 1, 32, 0, block, maps=[(0, 0, 0)], params=(0,))
    tape.execute((x,))


def nodes():
    graph = ctypes.c_void_p()
    fake.cuGraphCreate(ctypes.byref(graph), 0)
    _core.populate(_core.Tape(context, []), graph.value, ())


FEATURES = dict(
    maps=maps, nodes=nodes, assemble=lambda: _core.assemble(context, b".entry k("),
    pixels=pixels, attributes=lambda: launch(cooperative=True),
    launch=launch, memset=memset, events=events, copy_in=lambda: context.copy_in(x, data),
    copy_out=lambda: context.copy_out(data, x), copy=lambda: context.copy(y, x, 16),
    name=lambda: context.name, total=lambda: context.total_bytes, memory=context.memory_info,
    synchronize=context.synchronize,
    stream=lambda: _core.Stream(context).synchronize(), smem=lambda: kernel.allow_smem(100_000),
    free=lambda: _core.Buffer(context, 8).free(), device=lambda: _core.Context(1).name)
found = {}
for name, feature in FEATURES.items():
    try:
        feature()
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]
del kernel, x, y, context
print(json.dumps(found))
'''
NEEDS = {                                        # symbol -> what fails without it, of USE
    "cuDeviceTotalMem": {"total"}, "cuCtxSynchronize": {"synchronize"}, "cuFuncSetAttribute": {"smem"},
    "cuMemGetInfo": {"memory"}, "cuMemcpyDtoDAsync": {"copy"}, "cuMemsetD8Async": {"memset"},
    "cuStreamCreateWithPriority": {"stream", "events"},
    "cuTensorMapEncodeTiled": {"maps"}, "cuTensorMapReplaceAddress": {"maps"},
    "cuTensorMapEncodeIm2col": {"pixels"}, "cuLaunchKernelEx": {"attributes", "maps"},
    **{row.name: {"nodes"} for row in SYMBOLS if row.name.startswith("cuGraph")},
    **{row.name: {"assemble"} for row in SYMBOLS if row.name.startswith("cuLink")},
    **dict.fromkeys(("cuStreamWaitEvent", "cuEventCreate", "cuEventSynchronize", "cuEventRecord",
                     "cuEventElapsedTime"), {"events"}),
}


def use(driver, **env):
    """{feature: [exception, sentence]} of what fails."""
    root = str(HERE.parent.parent)
    run = subprocess.run([sys.executable, "-c", USE, str(driver)], cwd=root, capture_output=True, text=True,
                         timeout=600, env={**os.environ, "PYTHONPATH": root, **env})
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip().splitlines()[-1]


def test_a_new_driver_has_everything(driver):
    assert use(driver) == {}


@pytest.mark.share(16)
@pytest.mark.parametrize("row", [row for row in SYMBOLS if row.serves], ids=lambda row: row.name)
def test_one_missing_function_costs_what_needs_it(driver, row):
    found = use(driver, CYDNN_FAKE_MISSING=row.name)
    assert found.keys() == NEEDS.get(row.name, set()), found
    for error, sentence in found.values():
        assert error == "NotSupported" and sentence.startswith(
            f"{row.name}: is for {row.serves} and needs an NVIDIA driver for {version(row.since)} or newer; "
            "got one for CUDA 13.0")


@pytest.mark.share(16)
@pytest.mark.parametrize("name", [row.name for row in SYMBOLS if not row.serves and row.name != "cuInit"])
def test_without_the_others_the_driver_is_too_old(driver, name):
    assert use(driver, CYDNN_FAKE_MISSING=name) == (
        f'cydnn.status.DriverNotFound: cuda: this NVIDIA driver is too old, it has no {name}; update it, '
        'or use device="numpy" [CUDNN_STATUS_NOT_INITIALIZED]')


@pytest.mark.parametrize("served", [11000, 11040, 11060, 11080])
def test_drivers_of_cuda_11_run_what_they_can(driver, served):
    lacks = {"maps": "cuTensorMapEncodeTiled", "pixels": "cuTensorMapEncodeIm2col",
             "nodes": "cuGraphAddKernelNode"}
    if served < 11060:
        lacks["attributes"] = "cuLaunchKernelEx"
    assert use(driver, CYDNN_FAKE_VERSION=str(served)) == {
        feature: ["NotSupported", missing(name, served) + " [CUDNN_STATUS_NOT_SUPPORTED]"]
        for feature, name in lacks.items()}


def test_the_sentence_names_what_to_update_to():
    assert missing("cuTensorMapEncodeTiled", 11040) == (
        "cuTensorMapEncodeTiled: is for tensor maps and needs an NVIDIA driver for CUDA 12.0 (driver 525) or "
        "newer; got one for CUDA 11.4")


FIRST = '''
import ctypes, sys
fake = ctypes.CDLL(sys.argv[1])
from cydnn import _core
from cydnn.status import CydnnError
for status in (1, 3, 100, 101, 803, 999):
    fake.fake_fail(b"cuInit", 1, status)
    try:
        _core.device_count()
    except CydnnError as error:
        print(f"{status}: {type(error).__name__}: {error}")
print(_core.device_count())
context, needs = _core.Context(0), ((4,), (), (4,), (1,), 0, False)
for status in (1, 0):
    fake.fake_fail(b"cuDriverGetVersion", 1, status)
    try:
        context.tensor_map(7, *needs)
    except CydnnError as error:
        print(f"{type(error).__name__}: {error}")
'''


def test_a_driver_that_does_not_start_is_asked_again(driver):
    """cuInit fails with one status after the other, then works; a lacking function is said also where the
    driver does not say its version."""
    env = {**os.environ, "CYDNN_FAKE_MISSING": "cuTensorMapEncodeTiled"}
    run = subprocess.run([sys.executable, "-c", FIRST, str(driver)], cwd=HERE.parent.parent, text=True,
                         capture_output=True, env=env)
    *failed, count, unknown, known = run.stdout.splitlines()
    assert count == "2" and len(failed) == 6, run.stderr
    for status, line in zip((1, 3, 100, 101, 803, 999), failed):
        assert line.startswith(f"{status}: DriverNotFound: cuda: the driver finds no usable GPU, CUDA_ERROR_")
        assert f"({status})" in line
    sentence = "NotSupported: cuTensorMapEncodeTiled: is for tensor maps and needs an NVIDIA driver for CUDA"
    assert unknown.startswith(sentence) and "got one that does not say its version" in unknown
    assert known.startswith(sentence) and "got one for CUDA 13.0" in known
